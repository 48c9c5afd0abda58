#!/bin/bash
# Apply the copied redo log, as the owner of the data.
# Print the resulting checkpoints file, which shows that the copy is prepared.
# $1 data directory  $2 its device:inode  $3 run id of its marker  $4 owner  $5 $6 names of the checkpoints file
# $7 the server's option file  $8 its group suffix  $9 its groups  then the prepare command
set -u
datadir=$1 identity=$2 mark=$3 owner=$4 checkpoints=("$5" "$6") options=("$7" "$8" "$9")
shift 9
must_be_new_copy "$datadir" "$identity" "$mark"
no_server_on "$datadir"
begun=$(mark_of "$datadir" "$mark").preparing
[ ! -e "$begun" ] || refuse "An earlier prepare of this copy was interrupted. It cannot be repeated."
become "$owner"
check_copied_options "$datadir" "${options[@]}" || exit 70
as_owner touch -- "$begun" || fail "$datadir cannot be written."
(
    echo "$BASHPID" >pid.prepare
    exec 2>log.prepare >&2
    exec_as_owner "$@"
)
status=$?
echo "$status" >stage.prepare
for name in "${checkpoints[@]}"; do
    # shellcheck disable=SC2016  # for the inner shell
    as_owner sh -c '[ -f "$1" ] && head -c 65536 -- "$1"' dbops "$datadir/$name" && break
done
[ "$status" != 0 ] || as_owner rm -f -- "$begun"
exit "$status"
