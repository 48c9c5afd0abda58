#!/bin/bash
# Restore a published backup on a scratch server and read every table, after all checks. Always remove all created files. Does
# not connect to or stop other servers on this host.
# log.steps has one line for each step's start and end ("end NAME SECONDS BYTES"), log.counts one "SCHEMA TABLE ROWS" for each table.
# $1 name and machine id  $2 path  $3 bytes  $4 run that made the backup  $5 checksum  $6 place of the scratch directory
# $7 the restore test's id  $8 owner  $9 required free bytes  $10 required free memory  $11 memory limit of a process  $12 cores
# $13 seconds for the server's start  $14 backup_type of a prepared copy
# then separated by spaces: $15 unpackers $16 backup tools $17 servers $18 clients $19 checkpoints files
# then numbers of words: $20 $21 $22 $23, and these words: of the unpacker, of the backup tool, of the server (each without the
# program), of ssh if the file is on another host
set -u
umask 077
machine=$1 path=$2 bytes=$3 run=$4 sum=$5 place=$6 id=$7 owner=$8 needed=$9
shift 9
needed_memory=$1 most_memory=$2 cores=$3 start_seconds=$4 prepared=$5
read -r -a unpackers <<<"$6"
read -r -a tools <<<"$7"
read -r -a programs <<<"$8"
read -r -a clients <<<"$9"
shift 9
read -r -a checkpoints <<<"$1"
first=$2 second=$3 third=$4
shift 5
unpack=("${@:1:first}")
prepare=("${@:first+1:second}")
options=("${@:first+second+1:third}")
transport=("${@:first+second+third+1}")

first_program() {
    local name
    for name; do
        command -v -- "$name" && return
    done
    return 1
}
current=
step() { # name; ends the previous step
    end_step
    current=$1
    printf 'begin %s %s\n' "$1" "$(date +%s.%3N)" >>log.steps
}
end_step() { # bytes, if known
    [ -z "$current" ] || printf 'end %s %s %s\n' "$current" "$(date +%s.%3N)" "${1-}" >>log.steps
    current=
}
is_remote() { [ "${#transport[@]}" -gt 0 ]; }
read_file() { if is_remote; then exec "${transport[@]}" backup </dev/null; else exec cat <"$path"; fi; }
words_of() { tail -n 3 -- "$1" 2>/dev/null | tr '\n\t' '  ' | head -c 600; }

step check
must_be_restore_test "$id"
must_be_machine "$machine"
# (check all programs before the first byte is written)
unpacker=$(first_program "${unpackers[@]}") || refuse "tool ${unpackers[0]} is not installed on this host."
tool=$(first_program "${tools[@]}") || refuse "tool ${tools[0]} is not installed on this host."
program=$(first_program "${programs[@]}") || refuse "tool ${programs[0]} is not installed on this host. A restore test needs a scratch server."
client=$(first_program "${clients[@]}") || refuse "tool ${clients[0]} is not installed on this host."
command -v zstd >/dev/null || refuse "tool zstd is not installed on this host."
if is_remote; then # there, the forced command checks the record beside the file
    answer=$("${transport[@]}" check 2>&1 </dev/null)
    status=$?
    answer=$(printf '%s' "$answer" | tr '\n\t' '  ' | tail -c 400) # ssh can print several lines; the last one counts
    [ "$status" != 255 ] || refuse "transport The backup's host cannot be reached: $answer" # ssh's own status
    [ "$status" = 0 ] || refuse "The backup's host does not allow reading it: $answer"
    case $answer in *dbops-ready*) ;; *) refuse "Unexpected answer from the backup's host: $answer" ;; esac
else
    is_backup_of "$path" "$bytes" "$run" "$sum" || refuse "$path is not the backup of run $run with $bytes bytes, by the record beside it."
    [ -r "$path" ] || refuse "$path cannot be read."
fi
[ -d "$place" ] || refuse "space The directory $place for scratch directories is missing."
free=$(df -B1 --output=avail -- "$place" | tail -n 1)
[ "${free:-0}" -ge "$needed" ] ||
    refuse "space $place has $((free / 1048576)) MiB free, but the restored copy needs $((needed / 1048576)) MiB."
memory=$(($(sed -n 's/^MemAvailable: *\([0-9]*\).*/\1/p' /proc/meminfo) * 1024))
[ "$memory" -ge "$needed_memory" ] ||
    refuse "memory $((memory / 1048576)) MiB of memory are free, but $((needed_memory / 1048576)) MiB are needed."
scratch=$(scratch_of "$place" "$id") sockets=$(sockets_of "$id")
{ [ ! -e "$scratch" ] && [ ! -L "$scratch" ] && [ ! -e "$sockets" ] && [ ! -L "$sockets" ]; } ||
    refuse "$scratch or $sockets already exists."

# lowest priority on this host, and the kernel ends runaway processes
renice -n 19 -p $$ >/dev/null 2>&1
! command -v ionice >/dev/null || ionice -c 3 -p $$ 2>/dev/null
all=$(nproc --all 2>/dev/null || echo 1)
[ "$cores" -ge "$all" ] || ! command -v taskset >/dev/null || taskset -cp "$((all - cores))-$((all - 1))" $$ >/dev/null 2>&1
export MALLOC_ARENA_MAX=2
ulimit -v "$((most_memory / 1024))" || refuse "memory The limit of memory cannot be set."

serving=''
leave() {
    local status=$?
    trap - EXIT
    [ -z "$serving" ] || kill -KILL "$serving" 2>/dev/null
    [ -z "$current" ] || printf 'fail %s %s\n' "$current" "$(date +%s.%3N)" >>log.steps
    current=
    step remove
    remove_scratch "$place" "$id" || echo "$scratch" >left
    end_step
    exit "$status"
}
trap leave EXIT
# Everything that reads the restored data runs as an account without privileges: the writer of the backup must gain nothing here.
{ [ "$owner" != root ] && id -u -- "$owner" >/dev/null 2>&1; } || owner=65534:65534
[ "$(id -u)" = 0 ] || owner=$(id -un)
become "$owner"
data=$scratch/data
make_scratch() (
    name=./${scratch##*/}
    cd -P -- "$place" || exit
    if [ ${#as_owner[@]} -eq 0 ] || "${as_owner[@]}" test -w .; then # its names are the account's
        ${as_owner[@]+"${as_owner[@]}"} mkdir -m 0700 -- "$name" "$name/data" "$name/tmp"
    else
        is_roots_path || refuse "space Accounts other than root can exchange names in $place. Choose another directory."
        mkdir -m 0700 -- "$name" "$name/data" "$name/tmp" && chown -h -- "$owner" "$name/data" "$name/tmp" "$name"
    fi
)
make_scratch || { status=$?; [ "$status" = 65 ] && exit 65; fail "space $scratch cannot be made."; }
# only root changes names in it
{ mkdir -m 0711 -- "$sockets" && mkdir -m 0700 -- "$sockets/run" && mkdir -m 0755 -- "$sockets/view"; } || fail "space $sockets cannot be made."
[ ${#as_owner[@]} -eq 0 ] || chown -h -- "$owner" "$sockets/run" || fail "space $sockets cannot be given to $owner."
# Often only root can enter directories of backups: then it shows this account the scratch directory elsewhere.
if ! as_owner test -w "$data" 2>/dev/null; then
    view=$sockets/view
    # shellcheck disable=SC2016  # for the inner shell
    as_owner=(unshare --mount --propagation private -- bash -c 'mount --bind -- "$1" "$2" && shift 2 && exec "$@"' dbops "$scratch" "$view" "${as_owner[@]}")
    as_owner test -w "$view/data" 2>/dev/null || refuse "space $owner cannot enter $place, and root cannot show it elsewhere. Choose another directory."
    for number in "${!unpack[@]}"; do unpack[number]=${unpack[number]//"$scratch"/"$view"}; done
    for number in "${!prepare[@]}"; do prepare[number]=${prepare[number]//"$scratch"/"$view"}; done
    seen_scratch=$view
else
    seen_scratch=$scratch
fi
seen_data=$seen_scratch/data

stage() { # name, command: run a process that is counted and logged under this name
    echo "$BASHPID" >"pid.$1"
    exec 2>"log.$1"
    shift
    widen_input
    exec "$@"
}

# Fail with a host code if the host and not the backup can be the cause: no space, no memory, or a killed program (by the
# kernel if memory is short). Other signals are a program's reaction to unreadable data.
# $1 exit status  $2 activity  then at least one log
blame_the_host() {
    local status=$1 about=$2
    shift 2
    ! grep -qi 'no space left' -- "$@" 2>/dev/null || fail "space the disk became full while $about."
    ! grep -Eqi 'cannot allocate|out of memory' -- "$@" 2>/dev/null || fail "killed no memory was left while $about: $(words_of "$1")"
    case $status in 137 | 143) fail "killed a program was killed (status $status) while $about." ;; esac
}

# The same for a server that has ended. $1 exit status of the client  $2 activity
blame_the_host_of_server() {
    local ended=0
    case $1 in 137 | 143) blame_the_host "$1" "$2" log.server ;; esac
    for _ in 1 2 3 4 5; do # a client can notice the end before the shell does
        kill -0 "$serving" 2>/dev/null || break
        sleep 0.2
    done
    if ! kill -0 "$serving" 2>/dev/null; then
        wait "$serving"
        ended=$?
    fi
    blame_the_host "$ended" "$2" log.server
}

step unpack
# without space for the checksum file, no process would open the pipe and its writer would wait forever
{ : >sum; } 2>/dev/null || fail "space files cannot be written in $PWD."
mkfifo seen
add_up <seen >sum 2>/dev/null &
adding=$!
(
    echo "$BASHPID" >pid.transport
    exec 2>log.transport
    read_file
) |
    stage see tee --output-error=exit -- "$PWD/seen" |
    stage decompress zstd -q -d -c |
    (
        echo "$BASHPID" >pid.unpack
        exec 2>log.unpack >&2
        widen_input
        exec_as_owner "$unpacker" "${unpack[@]}"
    )
stages=("${PIPESTATUS[@]}")
{ : <>seen; } 2>/dev/null # so that it ends even without a writer
wait "$adding"
number=0
for name in transport see decompress unpack; do
    echo "${stages[$number]}" >"stage.$name"
    number=$((number + 1))
done
! grep -qi 'no space left' log.unpack log.decompress 2>/dev/null || fail "space the disk became full while the backup was unpacked."
# a broken connection does not mean a bad backup: then the checksum process has ended and no later one failed before
# (ssh itself ends with 255 or by a signal; other statuses come from the reader there)
is_broken() { is_remote && { [ "$1" -ge 128 ] || [ "$1" = 75 ]; }; }
! is_broken "${stages[0]}" || [ "${stages[1]}" != 0 ] || fail "transport ssh ended with status ${stages[0]}: $(words_of log.transport)"
# damage can stop the unpacker before the whole file is read; only the checksum shows the cause
if [ "${stages[*]}" != "0 0 0 0" ]; then
    for _ in $(seq 30); do # the sender may not have noticed yet that its reader has ended (75)
        (read_file 2>log.transport) | add_up >sum
        status=${PIPESTATUS[0]}
        [ "$status" = 75 ] || break
        sleep 1
    done
    ! is_broken "$status" || fail "transport the file could not be read completely: $(words_of log.transport)"
    [ "$status" = 0 ] || fail "damaged the file cannot be read: $(words_of log.transport)"
fi
read -r found _ <sum
[ "$found" = "$sum" ] ||
    fail "damaged the file has checksum $found instead of $sum. $(words_of log.decompress) $(words_of log.unpack)"
if [ "${stages[*]}" != "0 0 0 0" ]; then
    for status in "${stages[@]}"; do
        blame_the_host "$status" "the backup was unpacked" log.unpack log.decompress
    done
    fail "unpack reader, checksum, zstd and unpacker ended with ${stages[*]}: $(words_of log.decompress) $(words_of log.unpack)"
fi
[ ! -s log.unpack ] || fail "unpack the unpacking tool wrote: $(words_of log.unpack)"
rm -f seen sum
end_step "$(du -sb -- "$data" | cut -f1)"
# The server would open files outside of the copy, possibly those of a running server.
outside=$(find "$data" \( -name '*.isl' -o -type l \) -print -quit)
[ -z "$outside" ] || fail "outside ${outside#"$data"/} refers to data outside of the data directory."
my_cnf=$seen_data/backup-my.cnf
! as_owner grep -Eqs '^ *innodb[-_](undo_directory|data_home_dir|log_group_home_dir|data_file_path) *=.*/[^/;[:space:]]' "$my_cnf" ||
    fail "outside the backup's options name a directory outside of the data directory."
reason=$(check_copied_options "$seen_data" "" "" "") || fail "prepare ${reason#FAILED: }"

step prepare
redo=$(stat -c %s -- "$data"/ib_logfile* "$data"/xtrabackup_logfile 2>/dev/null | awk '{ bytes += $1 } END { printf "%.0f", bytes }')
(
    echo "$BASHPID" >pid.prepare
    exec 2>log.prepare >&2
    exec_as_owner "$tool" "${prepare[@]}"
)
status=$?
echo "$status" >stage.prepare
if [ "$status" != 0 ] || ! tail -n 5 log.prepare | grep -q 'completed OK!'; then
    blame_the_host "$status" "the backup was prepared" log.prepare
    fail "prepare the tool ended with status $status: $(words_of log.prepare)"
fi
type=
for name in "${checkpoints[@]}"; do
    [ -n "$type" ] || type=$(as_owner sed -n 's/^backup_type *= *//p' "$seen_data/$name" 2>/dev/null)
done
[ "$type" = "$prepared" ] || fail "prepare the copy has backup_type '$type' instead of '$prepared'."
end_step "$redo"

step start
# use the backup's options for the layout of its files; unknown options are not errors
layout=()
while IFS='=' read -r name value; do
    case $name in
        innodb_data_file_path | innodb_page_size | innodb_undo_tablespaces | innodb_checksum_algorithm | innodb_log_file_size | innodb_log_files_in_group)
            layout+=("--loose-$name=$value")
            ;;
    esac
done < <(as_owner sed 's/ *= */=/' "$my_cnf" 2>/dev/null)
(
    echo "$BASHPID" >pid.server
    exec 2>log.server >&2 </dev/null
    exec_as_owner "$program" --no-defaults "${layout[@]}" "${options[@]}" "--datadir=$seen_data" \
        "--tmpdir=$seen_scratch/tmp" "--socket=$sockets/run/s" "--pid-file=$sockets/run/pid"
) &
serving=$!
# utf8mb4: names outside of latin1 would arrive as question marks, and CHECK TABLE would not find them
ask=("$client" --no-defaults --local-infile=0 --default-character-set=utf8mb4 "--socket=$sockets/run/s" --user=root --batch --skip-column-names)
query() { as_owner "${ask[@]}" "$@"; }
query_stage() { # name: the same, counted and logged under this name
    echo "$BASHPID" >"pid.$1"
    exec 2>"log.$1"
    shift
    exec_as_owner "${ask[@]}" "$@"
}
deadline=$(($(date +%s) + start_seconds))
until query -e 'SELECT 1' >/dev/null 2>log.ask; do
    kill -0 "$serving" 2>/dev/null || {
        blame_the_host_of_server 0 "the server started"
        fail "start the server ended: $(grep -i '\[error\]' log.server | tail -n 3 | tr '\n' ' ' | head -c 600)"
    }
    [ "$(date +%s)" -lt "$deadline" ] || fail "start the server does not answer after $start_seconds s: $(words_of log.ask)"
    sleep 0.2
done
# tables with rows elsewhere or only in memory are not part of a physical backup
tables="FROM information_schema.TABLES WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')
    AND TABLE_SCHEMA NOT IN ('information_schema', 'performance_schema', 'sys')
    AND COALESCE(ENGINE, '') NOT IN ('FEDERATED', 'SPIDER', 'CONNECT', 'BLACKHOLE', 'MEMORY', 'PERFORMANCE_SCHEMA', 'S3', 'OQGRAPH')"
name="CONCAT('\`', REPLACE(TABLE_SCHEMA, '\`', '\`\`'), '\`.\`', REPLACE(TABLE_NAME, '\`', '\`\`'), '\`')"
end_step

step tables
query --raw -e "SELECT CONCAT('CHECK TABLE ', $name, ';') $tables ORDER BY TABLE_SCHEMA, TABLE_NAME" >check.sql 2>log.ask ||
    fail "tables the server cannot list its tables: $(words_of log.ask)"
(query_stage check --force <check.sql >log.checked)
status=$?
awk -F '\t' 'tolower($3) == "error" || ($3 == "status" && $4 != "OK" && $4 != "Table is already up to date")' log.checked >log.bad
checked=$(grep -c . check.sql)
[ ! -s log.bad ] || fail "tables bad lines of CHECK TABLE: $(wc -l <log.bad), the first: $(head -n 3 log.bad | tr '\n\t' '; ' | head -c 600)"
[ "$status" = 0 ] || blame_the_host_of_server "$status" "tables were checked"
[ "$status" = 0 ] || fail "tables the server did not check all tables: $(words_of log.check) $(grep -i '\[error\]' log.server | tail -n 2 | tr '\n' ' ' | head -c 400)"
kill -0 "$serving" 2>/dev/null || {
    blame_the_host_of_server 0 "tables were checked"
    fail "tables the server ended while it checked tables: $(words_of log.server)"
}
end_step "$(du -sb -- "$data" | cut -f1)"

step rows
query --raw -e "SELECT CONCAT('SELECT ', QUOTE(TABLE_SCHEMA), ', ', QUOTE(TABLE_NAME), ', COUNT(*) FROM ', $name, ';') $tables
    AND TABLE_SCHEMA <> 'mysql' ORDER BY TABLE_SCHEMA, TABLE_NAME" >count.sql 2>log.ask ||
    fail "tables the server cannot list its tables: $(words_of log.ask)"
(query_stage count <count.sql >log.counts) || {
    blame_the_host_of_server "$?" "rows were counted"
    fail "tables rows could not be counted: $(words_of log.count)"
}
end_step

step stop
kill -TERM "$serving" 2>/dev/null
for _ in $(seq 600); do
    kill -0 "$serving" 2>/dev/null || break
    sleep 0.1
done
kill -KILL "$serving" 2>/dev/null
wait "$serving" 2>/dev/null
serving=
end_step
awk -F '\t' -v checked="$checked" '{ rows += $3 } END { printf "checked=%d\ntables=%d\nrows=%.0f\n", checked, NR, rows }' log.counts >log.facts
