#!/bin/bash
# Apply the copied redo log, as the owner of the data.
# Print the resulting checkpoints file, which shows that the copy is prepared.
# $1 data directory  $2 its device:inode  $3 run id of its marker  $4 owner  $5 $6 names of the checkpoints file  then the prepare command
set -u
datadir=$1 identity=$2 mark=$3 owner=$4 checkpoints=("$5" "$6")
shift 6
must_be_new_copy "$datadir" "$identity" "$mark"
no_server_on "$datadir"
begun=$(mark_of "$datadir" "$mark").preparing
[ ! -e "$begun" ] || refuse "An earlier prepare of this copy was interrupted. It cannot be repeated."
as_owner=()
[ "$(id -un)" = "$owner" ] || as_owner=(setpriv "--reuid=$owner" "--regid=$(id -gn -- "$owner")" --init-groups)
: >"$begun" || fail "$datadir cannot be written."
(
    echo "$BASHPID" >pid.prepare
    exec 2>log.prepare >&2
    cd / && exec "${as_owner[@]}" "$@"
)
status=$?
echo "$status" >stage.prepare
for name in "${checkpoints[@]}"; do
    if [ -e "$datadir/$name" ]; then cat "$datadir/$name" && break; fi
done
[ "$status" != 0 ] || rm -f -- "$begun"
exit "$status"
