#!/bin/bash
# A scratch server beside the servers of a host: its steps, checks, directories, limits, start, stop and end. After common.sh and
# scratch.sh. The job sets: place, id, owner, needed, needed_memory, cores, most_memory, start_seconds, programs, clients.
# log.steps has one line for each step's start and end ("end NAME SECONDS BYTES").
# shellcheck disable=SC2119,SC2154  # end_step has an argument at times; those

# Print the path of the first program that this host has.
first_program() {
    local name
    for name; do
        command -v -- "$name" && return
    done
    return 1
}
step() { # name; ends the previous step
    end_step
    current=$1
    printf 'begin %s %s\n' "$1" "$(date +%s.%3N)" >>log.steps
}
# shellcheck disable=SC2120  # see above
end_step() { # bytes, if known
    [ -z "$current" ] || printf 'end %s %s %s\n' "$current" "$(date +%s.%3N)" "${1-}" >>log.steps
    current=
}
words_of() { tail -n 3 -- "$1" 2>/dev/null | tr '\n\t' '  ' | head -c 600; }

# Check the server's programs before the first byte is written. $1 what needs the server
check_server_programs() {
    program=$(first_program "${programs[@]}") || refuse "tool ${programs[0]} is not installed on this host. $1 needs a scratch server."
    client=$(first_program "${clients[@]}") || refuse "tool ${clients[0]} is not installed on this host."
}

# Check the free space and memory, and that no other job has the directories. $1 what needs the space
check_room() {
    [ -d "$place" ] || refuse "space The directory $place for scratch directories is missing."
    free=$(df -B1 --output=avail -- "$place" | tail -n 1)
    [ "${free:-0}" -ge "$needed" ] ||
        refuse "space $place has $((free / 1048576)) MiB free, but $1 needs $((needed / 1048576)) MiB."
    memory=$(($(sed -n 's/^MemAvailable: *\([0-9]*\).*/\1/p' /proc/meminfo) * 1024))
    [ "$memory" -ge "$needed_memory" ] ||
        refuse "memory $((memory / 1048576)) MiB of memory are free, but $((needed_memory / 1048576)) MiB are needed."
    scratch=$(scratch_of "$place" "$id") sockets=$(sockets_of "$id")
    { [ ! -e "$scratch" ] && [ ! -L "$scratch" ] && [ ! -e "$sockets" ] && [ ! -L "$sockets" ]; } ||
        refuse "$scratch or $sockets already exists."
}

# Run at the lowest priority on this host, on few cores, and let the kernel end runaway processes.
limit_job() {
    lower_priority
    all=$(nproc --all 2>/dev/null || echo 1)
    [ "$cores" -ge "$all" ] || ! command -v taskset >/dev/null || taskset -cp "$((all - cores))-$((all - 1))" $$ >/dev/null 2>&1
    export MALLOC_ARENA_MAX=2
    ulimit -v "$((most_memory / 1024))" || refuse "memory The limit of memory cannot be set."
}
# If the host runs short of memory, the kernel kills this job and what it starts, and not a serving server.
lower_priority() {
    { echo 1000 >/proc/$$/oom_score_adj; } 2>/dev/null
    renice -n 19 -p $$ >/dev/null 2>&1
    ! command -v ionice >/dev/null || ionice -c 3 -p $$ 2>/dev/null
}

# The end, however it comes: the server and all files are gone.
serving='' current=''
leave() {
    local status=$?
    trap - EXIT
    kill_server
    before_removal
    [ -z "$current" ] || printf 'fail %s %s\n' "$current" "$(date +%s.%3N)" >>log.steps
    current=
    step remove
    remove_scratch "$place" "$id" || echo "$scratch" >left
    end_step
    say_reason "$status"
    exit "$status"
}
# What a job's kind does before the removal and after it.
before_removal() { :; }
say_reason() { :; }
kill_server() {
    [ -n "$serving" ] && kill -KILL "$serving" 2>/dev/null || return 0
    for _ in $(seq 50); do
        kill -0 "$serving" 2>/dev/null || break
        sleep 0.1
    done
}

# Make the directories, for the account of the server.
enter_scratch() {
    trap leave EXIT
    # Everything that reads the restored data runs as an account without privileges: the writer of the backup must gain nothing here.
    { [ "$owner" != root ] && id -u -- "$owner" >/dev/null 2>&1; } || owner=65534:65534
    [ "$(id -u)" = 0 ] || owner=$(id -un)
    become "$owner"
    data=$scratch/data
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
        seen_scratch=$view
    else
        seen_scratch=$scratch
    fi
    seen_data=$seen_scratch/data
}
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

stage() { # name, command: run a process that is counted and logged under this name
    echo "$BASHPID" >"pid.$1"
    exec 2>"log.$1"
    shift
    widen_input
    exec "$@"
}

# Fail with a host code if the host and not the data can be the cause: no space, no memory, or a killed program (by the
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

# Set layout to the options of the backup for the layout of its files; unknown options are not errors.
read_layout() {
    local name value
    layout=()
    while IFS='=' read -r name value; do
        case $name in
            innodb_data_file_path | innodb_page_size | innodb_undo_tablespaces | innodb_checksum_algorithm | innodb_log_file_size | innodb_log_files_in_group)
                layout+=("--loose-$name=$value")
                ;;
        esac
    done < <(as_owner sed 's/ *= */=/' "$seen_data/backup-my.cnf" 2>/dev/null)
}

query() { as_owner "${ask[@]}" "$@"; }
query_stage() { # name: the same, counted and logged under this name
    echo "$BASHPID" >"pid.$1"
    exec 2>"log.$1"
    shift
    exec_as_owner "${ask[@]}" "$@"
}

# Start the server on the data. Options that the job's kind gives come after those of the layout. $@ options
start_server() {
    (
        echo "$BASHPID" >pid.server
        exec 2>log.server >&2 </dev/null
        limit_server
        cd / && exec ${scope[@]+"${scope[@]}"} ${as_owner[@]+"${as_owner[@]}"} "$program" --no-defaults ${layout[@]+"${layout[@]}"} "$@" "--datadir=$seen_data" \
            "--tmpdir=$seen_scratch/tmp" "--socket=$sockets/run/s" "--pid-file=$sockets/run/pid"
    ) &
    serving=$!
    # utf8mb4: names outside of latin1 would arrive as question marks, and CHECK TABLE would not find them
    ask=("$client" --no-defaults --local-infile=0 --default-character-set=utf8mb4 "--socket=$sockets/run/s" --user=root --batch --skip-column-names)
    deadline=$(($(date +%s) + start_seconds))
    until query -e 'SELECT 1' >/dev/null 2>log.ask; do
        kill -0 "$serving" 2>/dev/null || {
            blame_the_host_of_server 0 "the server started"
            fail "start the server ended: $(errors_of_server)"
        }
        [ "$(date +%s)" -lt "$deadline" ] || fail "start the server does not answer after $start_seconds s: $(words_of log.ask)"
        sleep 0.2
    done
}
# What a job puts around its server: limits that it enters itself, and words of a command.
limit_server() { :; }
errors_of_server() { { grep -i '\[error\]' log.server || cat log.server; } 2>/dev/null | tail -n 3 | tr '\n\t' '  ' | head -c 600; }
scope=()

# Let the server end in peace, or kill it.
stop_server() {
    kill -TERM "$serving" 2>/dev/null
    for _ in $(seq 600); do
        kill -0 "$serving" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$serving" 2>/dev/null
    wait "$serving" 2>/dev/null
    serving=
}
