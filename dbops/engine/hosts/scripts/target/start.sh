#!/bin/bash
# Start the server on a data directory. $1 data directory  $2 its device:inode
# $3 run id of its marker, empty for old data  $4 owner  $5 option file  $6 group suffix
# $7 flavor of a copy that starts for the first time, else empty; then it is made quiet: $8 client program
# $9 statements that forget replication  $10 REPLICA or SLAVE  $11 number of words of the server's command  then these
# then the start command
# A copy that was made quiet has a file .quieted beside its marker, for a later run. log.phase: the server itself starts.
set -u
# shellcheck disable=SC2034 # for quiet_copy and server_log
datadir=$1 identity=$2 mark=$3 owner=$4 defaults_file=$5 group_suffix=$6
quiet=("$7" "$8" "$9" "${10}") words=${11}
shift 11
# shellcheck disable=SC2034
quiet_server=("${@:1:words}")
shift "$words"
become "$owner"
[ "$(identity_of "$datadir")" = "$identity" ] || refuse "$datadir is not the directory to start."
[ -z "$mark" ] || must_be_new_copy "$datadir" "$identity" "$mark"
quieted=$(mark_of "$datadir" "$mark").quieted
if [ -n "$(servers_in "$datadir")" ]; then
    # a person or the host can have started it before it was made quiet
    [ -z "${quiet[0]}" ] || [ -e "$quieted" ] ||
        refuse "A server already runs on the copy, which was not made quiet. Stop it, then resume."
    echo "The server already runs."
    exit 0
fi
inside=$(mark_of "$datadir" "$mark").inside
[ -z "$mark" ] || unpack_inside "$datadir" "$inside"
if [ -n "${quiet[0]}" ]; then
    [ -f "$inside" ] || [ -e "$quieted" ] || forget_persisted "$datadir" # the source's: nothing was kept
    (quiet_copy "${quiet[@]}") || exit $?
    as_owner touch -- "$quieted" || fail "$datadir cannot be written."
    echo starting >log.phase
fi
[ -z "$mark" ] || as_owner rm -f -- "$inside" "${inside%.inside}.unpacked"
mark_server_log "$defaults_file" "$datadir" "$group_suffix"

failed() { # what happened; the server's own words follow
    local said
    said=$(server_errors "${start[@]}")
    fail "$1${said:+ The server says: $said}"
}

start=("$@")
forget_failed_starts "$@"

# It must use the new data, regardless of its option file.
# A server must not inherit the lock of this job.
"$@" </dev/null 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- || failed "The start command ended with status $?."
for _ in $(seq 100); do
    [ -z "$(servers_in "$datadir")" ] || exit 0
    sleep 0.1
done
failed "No server runs on $datadir after the start command. It ended or uses another directory."
