#!/bin/bash
# Apply the redo log that was copied, as the owner of the data.
# Prints the checkpoints file that it leaves: the proof that the copy is prepared.
# $1 data directory  $2 its device:inode  $3 owner  $4 $5 names of the checkpoints file  then the prepare command
set -u
datadir=$1 identity=$2 owner=$3 checkpoints=("$4" "$5")
shift 5
[ "$(identity_of "$datadir")" = "$identity" ] || refuse "$datadir is not the directory that was made for this run."
[ -z "$(servers_in "$datadir")" ] || refuse "A server runs on $datadir."
as_owner=()
[ "$(id -un)" = "$owner" ] || as_owner=(setpriv "--reuid=$owner" "--regid=$(id -gn -- "$owner")" --init-groups)
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
exit "$status"
