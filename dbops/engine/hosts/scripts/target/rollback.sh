#!/bin/bash
# Put the old data back: stop the server on the new copy, move the copy aside, move the old data back. Removes nothing. Check
# and action are one script on the target's host.
#
# $1 data directory   $2 run id of the marker in the new copy   $3 path of the old data   $4 its device:inode
# $5 destination of the new copy   $6 server id   $7 socket   $8 client program   $9 name and machine id of the host   $10 owner
# then the stop command
set -u
umask 077
datadir=$1 mark=$2 aside=$3 aside_identity=$4 failed=$5 server_id=$6 socket=$7 client=$8 machine=$9 owner=${10}
shift 10

ask() {
    "$client" --defaults-file="$DBOPS_JOB_DIR/admin.cnf" --socket="$socket" --batch --skip-column-names -e "$1" 2>&1
}

mark_file=$(mark_of "$datadir" "$mark")
leaving=$mark_file.leaving

has_mark() { is_of_mark "$datadir" "$mark_file" || [ -f "$leaving" ]; }

is_empty() { [ -z "$(find "$1" -mindepth 1 -maxdepth 1 ! -name lost+found ! -path "$aside" ! -path "$failed" -print -quit)" ]; }

must_be_machine "$machine"
become "$owner"
case $aside in *dbops-old-*) ;; *) refuse "$aside is not a directory that dbops moved aside." ;; esac
case $aside in "$datadir"/*) inside=1 ;; *) inside= ;; esac
if [ -z "$inside" ] && [ ! -e "$aside" ] && [ "$(identity_of "$datadir")" = "$aside_identity" ]; then
    echo "identity=$aside_identity" && exit 0 # already put back
fi
[ "$(identity_of "$aside")" = "$aside_identity" ] || refuse "$aside is not the old data that was moved aside."
[ ! -e "$(mark_of "$aside" "$mark")" ] || refuse "$aside contains the marker of a new copy. It is not the old data."
no_server_on "$aside"
(must_enter_directory_of "$datadir") || exit $?
if [ -d "$datadir" ] && ! has_mark && ! is_empty "$datadir" && [ -z "$inside" ]; then
    refuse "$datadir is neither empty nor this rebuild's copy. It contains other data."
fi

pids=$(servers_in "$datadir")
if [ -n "$pids" ]; then
    has_mark || refuse "The server on $datadir does not use this rebuild's copy."
    [ "$(echo "$pids" | wc -w)" = 1 ] || refuse "More than one server runs on $datadir: $pids"
    answer=$(ask 'SELECT @@server_id, @@read_only') || refuse "A server runs on $datadir and does not answer: $answer"
    read -r live_id live_read_only <<<"$answer"
    [ "$live_id" = "$server_id" ] || refuse "The server on $socket has server_id $live_id, but the plan has $server_id."
    [ "$live_read_only" = 1 ] || refuse "The server now accepts writes (read_only = $live_read_only). It may have become a primary."
    replicas=$(ask "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'") ||
        refuse "The server no longer answers: $replicas"
    [ "$replicas" = 0 ] || refuse "$replicas replicas are attached to this server."
    must_be_of_unit "$datadir" "$pids" "$@"
    "$@" </dev/null || fail "The stop command ended with status $?."
    for _ in $(seq 6000); do
        pids=$(servers_in "$datadir")
        [ -n "$pids" ] || break
        sleep 0.1
    done
    [ -z "$pids" ] || fail "Process $pids still runs on $datadir 10 minutes after the stop command."
elif may_start_again "$@"; then
    # the stop command would stop a server of the same unit that now uses another directory
    answer=$(ask 'SELECT @@datadir')
    case $answer in *'ERROR 2002 '*) ;; *) refuse "No server runs on $datadir, but one uses $socket: $answer" ;; esac
    "$@" </dev/null || fail "The stop command ended with status $?."
    no_server_on "$datadir"
fi

if [ -n "$inside" ]; then
    identity=$(identity_of "$datadir")
    here() { in_data "$datadir" "$identity" "$@"; } # as the owner
    old=./${aside##*/} discarded=./${failed##*/} marked=./${mark_file##*/} left=./${leaving##*/}
    if has_mark; then
        # This script can be killed between two files. Rename the marker before the first move, so that the copy cannot be resumed, and
        # move it last, so that the remaining files are not taken for old data.
        [ ! -f "$mark_file" ] || here mv -f -T -- "$marked" "$left" || fail "$mark_file could not be renamed."
        here mkdir -p -- "$discarded" || fail "$failed could not be created."
        # keep directories that other rebuilds moved aside: $failed is removed later
        here find . -mindepth 1 -maxdepth 1 \
            ! -name '.dbops-old-*' ! -name '.dbops-failed-*' ! -path "$left" ! -name lost+found \
            -exec mv -t "$discarded" -- {} + || fail "The new copy could not be moved aside."
        here mv -t "$discarded" -- "$left" || fail "The new copy could not be moved aside."
    fi
    # without a marker, moving the old data had only started: the directory contains old data too
    here find "$old" -mindepth 1 -maxdepth 1 -exec mv -n -t . -- {} + || fail "The old data could not be moved back."
    here rmdir -- "$old" || fail "$aside and $datadir contain the same name. Both were kept."
else
    [ ! -d "$datadir" ] || move_beside "$datadir" "$(identity_of "$datadir")" "$failed" || exit $?
    move_beside "$aside" "$aside_identity" "$datadir" || exit $?
fi
echo "identity=$(identity_of "$datadir")"
[ ! -e "$failed" ] || echo "failed_identity=$(identity_of "$failed")"
