#!/bin/bash
# The last check, the stop and the move in one script on the target's host, so that nothing happens between check and action.
#
# $1 data directory       $2 its device:inode, empty if it was missing    $3 1 if the server answered, else 0
# $4 server id            $5 server uuid                                  $6 socket
# $7 destination of the old data, empty: remove it                       $8 owner of the data directory
# $9 client program       $10 run id, for the marker in the new directory
# $11 name and machine id of the host, empty if unknown
# $12 tree_of the remains of a failed rebuild, empty without one   then the stop command
# Also: the file "inside" in the job's directory, with what to keep of the old directory (inside.sh)
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
    refuse "$datadir is not the plan's directory ($(identity_of "$datadir") instead of $expected_identity)."
become "$owner"
(must_enter_directory_of "$(existing_above "$datadir")") || exit $?
case $datadir in / | /usr* | /etc* | /bin* | /boot* | /proc* | /sys* | /dev*) refuse "$datadir is not a data directory." ;; esac
# the same directory can contain a person's work: on a mount point, or with a reused inode
[ -z "$tree" ] || [ "$(tree_of "$datadir")" = "$tree" ] ||
    refuse "The content of $datadir has changed since the failed rebuild."

must_be_startable "$@"
pids=$(servers_in "$datadir")
if [ "$expected_running" = 1 ]; then
    [ "$(echo "$pids" | wc -w)" = 1 ] || refuse "The plan has one server on $datadir; now there are: ${pids:-none}."
    answer=$(ask 'SELECT @@server_id, @@read_only, @@datadir') || refuse "The server no longer answers: $answer"
    read -r live_id live_read_only live_datadir <<<"$answer"
    [ "$live_id" = "$server_id" ] || refuse "The server on $socket has server_id $live_id, but the plan has $server_id."
    [ "$(readlink -f -- "$live_datadir")" = "$(readlink -f -- "$datadir")" ] || refuse "The server on $socket uses $live_datadir."
    [ "$live_read_only" = 1 ] || refuse "The server now accepts writes (read_only = $live_read_only). It may have become a primary."
    if [ -n "$server_uuid" ]; then
        live_uuid=$(ask 'SELECT @@server_uuid') || refuse "The server no longer answers: $live_uuid"
        [ "$live_uuid" = "$server_uuid" ] || refuse "The server has uuid $live_uuid, but the plan has $server_uuid."
    fi
    replicas=$(ask "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'") ||
        refuse "The server no longer answers: $replicas"
    [ "$replicas" = 0 ] || refuse "$replicas replicas are attached to this server."
else
    [ -z "$pids" ] || refuse "The plan has no running server on $datadir; now process $pids runs."
    # the stop command would stop a server of the same unit that now uses another directory
    if [ -n "$socket" ]; then
        answer=$(ask 'SELECT @@datadir')
        case $answer in *'ERROR 2002 '*) ;; *) refuse "The plan has no running server; now one uses $socket: $answer" ;; esac
    fi
fi

# The owner moves and removes what is in the directory. It cannot do that to directories of other accounts.
depth=()
[ -z "$aside" ] || depth=(-maxdepth 1)
if [ -d "$datadir" ] && { [ -z "$aside" ] || mountpoint -q -- "$datadir"; }; then
    foreign=$(find "$datadir" -xdev -mindepth 1 ${depth[@]+"${depth[@]}"} \( -path "$datadir/.dbops-*" -o -path "$datadir/lost+found" \) -prune \
        -o -type d ! -user "$owner" -print -quit)
    [ -z "$foreign" ] || refuse "$foreign does not belong to $owner. Move it elsewhere, or give it to $owner."
fi

must_be_of_unit "$datadir" "$pids" "$@"
kept=
if [ -s "$DBOPS_JOB_DIR/inside" ]; then
    kept=$DBOPS_RUN_DIR/inside.tar
    pack_inside "$datadir" "$owner" "$DBOPS_JOB_DIR/inside" "$kept" || refuse "The files in $datadir that the option file names cannot be read."
fi

: >"$DBOPS_RUN_DIR/stopping" || fail "$DBOPS_RUN_DIR cannot be written."
"$@" </dev/null || fail "The stop command ended with status $?."
for _ in $(seq 6000); do # a large buffer pool takes minutes to write back
    pids=$(servers_in "$datadir")
    [ -n "$pids" ] || break
    sleep 0.1
done
[ -z "$pids" ] || fail "Process $pids still runs on $datadir 10 minutes after the stop command."

# protect a person's work that started during the stop command
[ -z "$tree" ] || [ "$(tree_of "$datadir")" = "$tree" ] || fail "The content of $datadir changed during the swap. Nothing was moved."
: >"$DBOPS_RUN_DIR/moved" || fail "$DBOPS_RUN_DIR cannot be written."
mode=0750
[ ! -d "$datadir" ] || mode=$(stat -c %a -- "$datadir")
if [ ! -d "$datadir" ]; then
    :
elif [ -z "$aside" ]; then
    in_data "$datadir" "$expected_identity" find . -mindepth 1 -maxdepth 1 ! -name '.dbops-old-*' ! -name '.dbops-failed-*' ! -name lost+found \
        -exec rm -rf --one-file-system -- {} + ||
        fail "The old data could not be removed."
elif mountpoint -q -- "$datadir"; then
    inside=./${aside##*/}
    in_data "$datadir" "$expected_identity" mkdir -- "$inside" || fail "$aside could not be created."
    # keep directories of other rebuilds: a person can have requested that
    in_data "$datadir" "$expected_identity" find . -mindepth 1 -maxdepth 1 ! -name '.dbops-old-*' ! -name '.dbops-failed-*' ! -name lost+found \
        -exec mv -t "$inside" -- {} + || fail "The old data could not be moved."
else
    move_beside "$datadir" "$expected_identity" "$aside" || exit $?
fi
[ -d "$datadir" ] || make_data_directory "$datadir" "$owner" "$mode" || fail "$datadir could not be created."
identity=$(identity_of "$datadir")
mark=$(mark_of . "$run_id")
# shellcheck disable=SC2016  # for the inner shell
in_data "$datadir" "$identity" sh -c 'umask 022 && : >"$1"' dbops "$mark" || fail "$datadir cannot be written."
if [ -n "$kept" ] && [ -f "$kept" ]; then # the owner unpacks it when the copy is complete
    # shellcheck disable=SC2016  # for the inner shell
    in_data "$datadir" "$identity" sh -c 'cat >"$1"' dbops "$mark.inside" <"$kept" || fail "$datadir cannot be written."
    rm -f -- "$kept"
fi
echo "identity=$identity"
echo "tree=$(tree_of "$datadir")"
[ -z "$aside" ] || echo "aside_identity=$(identity_of "$aside")"
