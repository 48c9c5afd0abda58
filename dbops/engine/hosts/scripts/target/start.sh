#!/bin/bash
# Start the server on a data directory. $1 data directory  $2 its device:inode
# $3 run id of its marker, empty for old data  then the start command
set -u
datadir=$1 identity=$2 mark=$3
shift 3
[ "$(identity_of "$datadir")" = "$identity" ] || refuse "$datadir is not the directory to start."
[ -z "$mark" ] || must_be_new_copy "$datadir" "$identity" "$mark"
[ -z "$(servers_in "$datadir")" ] || { echo "The server already runs." && exit 0; }
[ -z "$mark" ] || unpack_inside "$datadir" "$(mark_of "$datadir" "$mark").inside"
# It must use the new data, regardless of its option file.
# A server must not inherit the lock of this job.
"$@" </dev/null 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- || fail "The start command ended with status $?."
for _ in $(seq 100); do
    [ -z "$(servers_in "$datadir")" ] || exit 0
    sleep 0.1
done
fail "No server runs on $datadir after the start command. It ended or uses another directory."
