#!/bin/bash
# Back up the server on this machine into a partial file, after all checks. The files that show that the backup is complete
# go into log.files, one line "NAME BASE64" each. Another script publishes the file.
# $1 name and machine id  $2 data directory  $3 its device:inode  $4 server id  $5 socket  $6 directory  $7 partial file's name
# $8 bytes that must be free  $9 method  then separated by spaces: $10 clients  $11 tools  $12 files for the check
# $13 mount point of the last backup's file system, empty if unknown
# $14 the server's option file, empty if the tool needs none of it  $15 its groups  $16 options for the tool
# $17 number of the tool's options  then the options, then the compressor's words
set -u
umask 077
machine=$1 datadir=$2 identity=$3 server_id=$4 socket=$5 directory=$6 partial=$7 needed=$8 method=$9
shift 9
read -r -a clients <<<"$1"
read -r -a tools <<<"$2"
read -r -a evidence <<<"$3"
mount=$4 defaults=$5 groups=$6 names=$7 words=$8
shift 8
options=("${@:1:words}")
compress=("${@:words+1}")
file=$directory/$partial

first_program() {
    local name
    for name; do
        command -v -- "$name" && return
    done
    return 1
}

must_be_machine "$machine"
[ "$(identity_of "$datadir")" = "$identity" ] || refuse "$datadir is not the directory that was just probed."
[ -n "$(servers_in "$datadir")" ] || refuse "No server runs on $datadir."
tool=$(first_program "${tools[@]}") ||
    refuse "${tools[0]} is not installed on this host. Install the server's client or backup package."
command -v -- "${compress[0]}" >/dev/null ||
    refuse "${compress[0]}, which compresses the backup, is not installed on this host. Install the package ${compress[0]}."
add_tool_options "$DBOPS_JOB_DIR/backup.cnf" "$datadir" "$defaults" "$groups" "$names" || exit 70
owner=$(account_of_server "$datadir") || { echo "$owner" && exit 70; }
run=${DBOPS_RUN_DIR##*/}
# A dump program opens no file of the data, and logs in as the dashboard's local account. The server's account must not get that one's
# password. Without a password, the server knows the local account by the one that runs us.
if [ "$method" = dump ] && grep -qx 'password=""' "$DBOPS_JOB_DIR/backup.cnf"; then
    owner=$(id -un)
elif [ "$method" = dump ] && [ "$(id -u)" = 0 ]; then
    owner=65534:65534
fi
echo tool.cnf >>"$DBOPS_JOB_DIR/secrets"
make_tool_directory "$owner" "$run" || fail "Files cannot be written in $PWD."
query() { # as the tool's account
    set_tool_words "$owner" "$run" "$client" --defaults-file="$PWD/backup.cnf" --local-infile=0 --socket="$socket" --batch --skip-column-names -e "$1"
    # shellcheck disable=SC2154  # set_tool_words sets it
    "${tool_words[@]}"
}
if client=$(first_program "${clients[@]}"); then
    answer=$(query 'SELECT @@server_id, @@datadir' 2>&1) || fail "The account cannot query the server at $socket: $answer"
    read -r id where <<<"$answer"
    { [ "$id" = "$server_id" ] && [ "$(identity_of "$where")" = "$identity" ]; } ||
        refuse "The server at $socket has server id $id and data directory $where. It is not the probed server."
fi
case "$(readlink -m -- "$directory")/" in
    "$(readlink -f -- "$datadir")"/*) refuse "$directory is inside the data directory. Set another directory in the schedule." ;;
esac
# compare mount points: device numbers change when a network file system is mounted again
here=$(mount_of "$directory")
[ -z "$mount" ] || [ "$here" = "$mount" ] ||
    refuse "$directory is on the file system mounted at $here, but the last backup is on the one at $mount. Mount it;" \
        "where $here is meant, give the schedule a directory of another name."
mkdir -p -- "$directory" 2>/dev/null || refuse "The directory $directory cannot be created."
free=$(df -B1 --output=avail -- "$directory" | tail -n 1)
[ "${free:-0}" -ge "$needed" ] ||
    refuse "$directory has $((free / 1048576)) MiB free, but the backup needs $((needed / 1048576)) MiB."
rm -f -- "$file"
# as a new file: another account may be able to put a link in its place
set -o noclobber
{ exec 96>"$file"; } 2>/dev/null || refuse "Files cannot be written in $directory."
set +o noclobber
[ "$(LC_ALL=C stat -L -c %F /dev/fd/96)" = "regular empty file" ] || refuse "$file is not a new file."

# the server's work has priority
renice -n 10 -p $$ >/dev/null 2>&1
! command -v ionice >/dev/null || ionice -c 2 -n 7 -p $$ 2>/dev/null

stage() { # name, command: one stage of the pipe, counted and logged under its name
    echo "$BASHPID" >"pid.$1"
    exec 2>"log.$1"
    shift
    widen_input
    cd / && exec "$@"
}

# The statements of a dump that contain its position; table rows never start a line with these words.
positions() {
    sed -n -e '/^\(-- \)\?CHANGE \(MASTER\|REPLICATION SOURCE\) TO /p' -e '/^\(-- \)\?SET GLOBAL gtid_slave_pos *=/p' \
        -e '/^\(-- \)\?SET @@GLOBAL.GTID_PURGED=/,/;/p'
}

# shellcheck disable=SC2154  # set_tool_words sets it
run_tool() { stage tool "${tool_words[@]}" </dev/null; }
# a full disk ends the whole pipe immediately
write() { stage write tee --output-error=exit -- /dev/fd/96; }
add_up_here() {
    echo "$BASHPID" >pid.sum
    add_up 2>log.sum >sum
}

set_tool_words "$owner" "$run" "$tool" "${options[@]}"
if [ "$method" = dump ]; then
    # Copy both ends of the dump from the stream: they contain its position (MariaDB's GTID is at the end) and show that it is
    # complete. Reading them from the file would decompress it all again.
    # Hold the pipe open here, so that neither side waits for the other forever.
    mkfifo seen
    exec 5<>seen
    { head -c 65536 >first.part && tail -c 65536 >last.part; } <seen 5>&- &
    run_tool 5>&- | stage see tee --output-error=exit -- "$PWD/seen" 5>&- | stage compress "${compress[@]}" 5>&- | write 5>&- | add_up_here 5>&-
    stages=("${PIPESTATUS[@]}")
    names=(tool see compress write sum)
    exec 5>&-
    wait
    [ -s last.part ] || tail -c 400 first.part >last.part # a dump shorter than its head
else
    run_tool | stage compress "${compress[@]}" | write | add_up_here
    stages=("${PIPESTATUS[@]}")
    names=(tool compress write sum)
fi
sync -- /dev/fd/96 || fail "$file could not be synced to disk."
bytes=$(stat -L -c %s /dev/fd/96) identity=$(stat -L -c %d:%i /dev/fd/96)
exec 96>&- # the tool's account must not get it
for number in "${!names[@]}"; do
    echo "${stages[$number]}" >"stage.${names[$number]}"
done
{
    printf 'facts %s\n' "$(printf 'bytes=%s\nidentity=%s\nsha256=%s\ntool=%s\nprogram=%s\nmount=%s\n' "$bytes" \
        "$identity" "$(cut -d' ' -f1 sum)" "$("$tool" --no-defaults --version 2>&1 | tail -n 1)" "$tool" "$here" | base64 -w0)"
    [ "$method" = dump ] || [ -z "${client:-}" ] || printf 'binlogs %s\n' "$(query 'SHOW BINARY LOGS' 2>/dev/null | cut -f 1,2 | base64 -w0)"
    [ ! -f last.part ] || printf 'end %s\n' "$(tail -n 1 last.part | tail -c 400 | base64 -w0)"
    [ ! -f first.part ] || printf 'position %s\n' "$(cat first.part last.part | positions | head -c 8192 | base64 -w0)"
    printf 'log %s\n' "$(tail -c 65536 log.tool | base64 -w0)"
    print_tool_files "${evidence[@]}"
} >log.files
rm -f first.part last.part seen
for status in "${stages[@]}"; do
    [ "$status" = 0 ] || exit 1
done
