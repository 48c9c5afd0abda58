#!/bin/bash
# Start the server on a data directory. $1 data directory  $2 its device:inode
# $3 run id of its mark, empty for old data  then the start command
set -u
datadir=$1 identity=$2 mark=$3
shift 3
[ "$(identity_of "$datadir")" = "$identity" ] || refuse "$datadir is not the directory that is to be started."
[ -z "$mark" ] || must_be_new_copy "$datadir" "$identity" "$mark"
[ -z "$(servers_in "$datadir")" ] || { echo "The server runs already." && exit 0; }
# It must come up on the new data, wherever its option file points.
# A server must not inherit the lock of this job.
"$@" </dev/null 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- || fail "The start command ended with status $?."
for _ in $(seq 100); do
    [ -z "$(servers_in "$datadir")" ] || exit 0
    sleep 0.1
done
fail "No server runs on $datadir after the start command: it ended, or it uses another directory."
