#!/bin/bash
# The last check, the stop and the move, in one script on the target's own host: nothing lies between check and act.
#
# $1 data directory       $2 its device:inode, empty if it was missing    $3 1 if the server was answering, else 0
# $4 server id            $5 server uuid                                  $6 socket
# $7 where the old data goes, empty: it is removed                       $8 owner of the data directory
# $9 client program       $10 run id, for the mark in the new directory
# $11 name and machine id of the host, empty where they were not known
# $12 what lies in it by the failed rebuild that left it (tree_of), empty where no rebuild left it   then the stop command
set -u
umask 077
datadir=$1 expected_identity=$2 expected_running=$3 server_id=$4 server_uuid=$5 socket=$6 aside=$7 owner=$8 client=$9
run_id=${10} machine=${11} tree=${12}
shift 12

ask() {
    "$client" --defaults-file="$DBOPS_JOB_DIR/admin.cnf" --socket="$socket" --batch --skip-column-names -e "$1" 2>&1
}

must_be_machine "$machine"
[ "$(identity_of "$datadir")" = "$expected_identity" ] ||
    refuse "$datadir is not the directory that the plan saw ($(identity_of "$datadir") instead of $expected_identity)."
case $datadir in / | /usr* | /etc* | /bin* | /boot* | /proc* | /sys* | /dev*) refuse "$datadir is no data directory." ;; esac
# a directory may be the same and what lies in it a person's work: on a mount point, or where an inode was given out again
[ -z "$tree" ] || [ "$(tree_of "$datadir")" = "$tree" ] ||
    refuse "What lies in $datadir is not what the failed rebuild left: somebody has worked there since."

pids=$(servers_in "$datadir")
if [ "$expected_running" = 1 ]; then
    [ "$(echo "$pids" | wc -w)" = 1 ] || refuse "The plan saw one server on $datadir; now there are: ${pids:-none}."
    answer=$(ask 'SELECT @@server_id, @@read_only, @@datadir') || refuse "The server does not answer any more: $answer"
    read -r live_id live_read_only live_datadir <<<"$answer"
    [ "$live_id" = "$server_id" ] || refuse "The server on $socket has server_id $live_id, the plan saw $server_id."
    [ "$(readlink -f -- "$live_datadir")" = "$(readlink -f -- "$datadir")" ] || refuse "The server on $socket uses $live_datadir."
    [ "$live_read_only" = 1 ] || refuse "The server takes writes now (read_only = $live_read_only): it may have become a primary."
    if [ -n "$server_uuid" ]; then
        live_uuid=$(ask 'SELECT @@server_uuid') || refuse "The server does not answer any more: $live_uuid"
        [ "$live_uuid" = "$server_uuid" ] || refuse "The server has uuid $live_uuid, the plan saw $server_uuid."
    fi
    replicas=$(ask "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'") ||
        refuse "The server does not answer any more: $replicas"
    [ "$replicas" = 0 ] || refuse "$replicas replicas are attached to this server now."
else
    [ -z "$pids" ] || refuse "The plan saw no running server on $datadir; now there is process $pids."
    # the stop command would end a server of the same unit that stands in another directory by now
    if [ -n "$socket" ]; then
        answer=$(ask 'SELECT @@datadir')
        case $answer in *'ERROR 2002 '*) ;; *) refuse "The plan saw no running server; now one is on $socket: $answer" ;; esac
    fi
fi

: >"$DBOPS_RUN_DIR/stopping" || fail "$DBOPS_RUN_DIR cannot be written."
"$@" </dev/null || fail "The stop command ended with status $?."
for _ in $(seq 6000); do # a large buffer pool takes minutes to write back
    pids=$(servers_in "$datadir")
    [ -n "$pids" ] || break
    sleep 0.1
done
[ -z "$pids" ] || fail "Process $pids still runs on $datadir 10 minutes after the stop command."

group=$(id -gn -- "$owner") || fail "The user $owner does not exist."
mode=0750
# the stop command took its time: whoever began to work there meanwhile is not to lose it
[ -z "$tree" ] || [ "$(tree_of "$datadir")" = "$tree" ] || fail "What lies in $datadir changed while it was being taken over: nothing was moved."
: >"$DBOPS_RUN_DIR/moved" || fail "$DBOPS_RUN_DIR cannot be written."
if [ -d "$datadir" ]; then
    mode=$(stat -c %a -- "$datadir")
    if [ -z "$aside" ]; then
        (cd "$datadir" && find . -xdev -mindepth 1 ! -path './.dbops-old-*' ! -path './.dbops-failed-*' -delete) ||
            fail "The old data could not be removed."
    elif mountpoint -q -- "$datadir"; then
        mkdir -- "$aside" || fail "$aside could not be made."
        # what another rebuild moved aside is not this one's: a person may have asked to keep it
        find "$datadir" -mindepth 1 -maxdepth 1 ! -name '.dbops-old-*' ! -name '.dbops-failed-*' ! -name lost+found -exec mv -t "$aside" -- {} + ||
            fail "The old data could not be moved."
    else
        [ ! -e "$aside" ] || fail "$aside exists already."
        mv -T -n -- "$datadir" "$aside" || fail "The old data could not be moved to $aside."
    fi
fi
[ -d "$datadir" ] || mkdir -p -- "$datadir" || fail "$datadir could not be made."
chmod "$mode" -- "$datadir" || fail "$datadir could not be given mode $mode."
chown "$owner:$group" -- "$datadir" || fail "$datadir could not be given to $owner."
: >"$(mark_of "$datadir" "$run_id")" || fail "$datadir cannot be written."
chmod 0644 -- "$(mark_of "$datadir" "$run_id")"
echo "identity=$(identity_of "$datadir")"
echo "tree=$(tree_of "$datadir")"
[ -z "$aside" ] || echo "aside_identity=$(identity_of "$aside")"
