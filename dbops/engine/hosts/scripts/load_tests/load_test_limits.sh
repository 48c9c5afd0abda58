#!/bin/bash
# Limits of a load test: cores and memory of its server and its load generator, free disk, and time. After scratch_server.sh. The job sets
# server_cores, generator_cores, server_memory, generator_memory (bytes), floor (free bytes of the disk) and most_seconds.
# shellcheck disable=SC2154  # those

# Set cores to the numbers of the cores that this job may use.
read_cores() {
    local part
    cores=()
    for part in $(sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/self/status | tr ',' ' '); do
        # shellcheck disable=SC2207  # numbers
        cores+=($(seq "${part%-*}" "${part#*-}"))
    done
}

# Choose the cores of server and generator: the last ones, and those before if there are enough; else both share.
# shellcheck disable=SC2034  # for the job
choose_cores() {
    local count
    read_cores
    count=${#cores[@]} server_list='' generator_list=''
    command -v taskset >/dev/null && [ "$count" -gt 0 ] || return 0
    [ "$server_cores" -le "$count" ] || server_cores=$count
    [ "$generator_cores" -le "$count" ] || generator_cores=$count
    server_list=$(IFS=, && echo "${cores[*]:count-server_cores:server_cores}")
    if [ $((server_cores + generator_cores)) -le "$count" ]; then
        generator_list=$(IFS=, && echo "${cores[*]:count-server_cores-generator_cores:generator_cores}")
    else
        generator_list=$(IFS=, && echo "${cores[*]:0:generator_cores}")
    fi
}

# Set limited_by to what limits the server's memory: systemd, cgroup2, cgroup1, or ulimit, which limits its addresses.
choose_limit() {
    local name=dbops-$scratch_kind-$id
    limited_by=ulimit scope=() group=
    [ "$(id -u)" = 0 ] || return 0
    if [ -d /run/systemd/system ] && command -v systemd-run >/dev/null; then
        scope=(systemd-run --scope --quiet --collect -p "MemoryMax=$server_memory" -p MemorySwapMax=0 -p TasksMax=infinity --)
        "${scope[@]}" true 2>/dev/null && limited_by=systemd && return 0
        scope=()
    fi
    group=/sys/fs/cgroup/$name
    if grep -qw memory /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null && mkdir -- "$group" 2>/dev/null; then
        { echo "$server_memory" >"$group/memory.max"; } 2>/dev/null && limited_by=cgroup2
        { echo 0 >"$group/memory.swap.max"; } 2>/dev/null
        [ "$limited_by" = ulimit ] || return 0
        rmdir -- "$group" 2>/dev/null
    fi
    group=/sys/fs/cgroup/memory/$name
    if [ -e /sys/fs/cgroup/memory/cgroup.procs ] && mkdir -- "$group" 2>/dev/null; then
        # without accounting of swap, only swappiness keeps the server out of it
        { echo 0 >"$group/memory.swappiness"; } 2>/dev/null
        if { echo "$server_memory" >"$group/memory.limit_in_bytes"; } 2>/dev/null; then
            limited_by=cgroup1
            { echo "$server_memory" >"$group/memory.memsw.limit_in_bytes"; } 2>/dev/null
            return 0
        fi
        rmdir -- "$group" 2>/dev/null
    fi
    group=
}

# Enter the limits of the server, in the process that becomes it. Of addresses, a server needs more than of memory.
limit_server() {
    [ -z "$server_list" ] || taskset -cp "$server_list" "$BASHPID" >/dev/null 2>&1
    ulimit -S -v unlimited
    ulimit -n "$(ulimit -Hn)" 2>/dev/null
    case $limited_by in
        cgroup*) echo "$BASHPID" >"$group/cgroup.procs" || exit 70 ;;
        ulimit) ulimit -v "$((server_memory / 1024 + 3145728))" || exit 70 ;;
    esac
}

# Note where the kernel counts the processes of the server's group that it kills for their memory, and their number until now.
note_kills() {
    local names path
    events=''
    while IFS=: read -r _ names path; do
        case ,$names, in
            ,,) [ ! -r "/sys/fs/cgroup$path/memory.events" ] || events=/sys/fs/cgroup$path/memory.events ;;
            *,memory,*) [ ! -r "/sys/fs/cgroup/memory$path/memory.oom_control" ] || events=/sys/fs/cgroup/memory$path/memory.oom_control ;;
        esac
    done <"/proc/$serving/cgroup" 2>/dev/null
    kills=$(kills_in "$events") kills_of_host=$(kills_in /proc/vmstat)
}
kills_in() { sed -n 's/^oom_kill \([0-9]*\)$/\1/p' -- "$1" 2>/dev/null; }

# Whether the kernel killed a process of the server's group for its memory since then; false if it does not tell. systemd removes a
# group with its last process: then the number of the whole host counts.
is_out_of_memory() {
    local before=$kills now
    [ "$limited_by" != ulimit ] || return 1
    now=$(kills_in "$events")
    [ -e "$events" ] || before=$kills_of_host now=$(kills_in /proc/vmstat)
    [ -n "$before" ] && [ -n "$now" ] && [ "$now" -gt "$before" ]
}
events='' kills='' kills_of_host=''

# Watch disk and time, in the background; end the job with a reason when either is used up.
watch_limits() {
    local until free
    until=$(($(date +%s) + most_seconds))
    while sleep 1 && kill -0 $$ 2>/dev/null; do
        free=$(df -B1 --output=avail -- "$place" 2>/dev/null | tail -n 1)
        [ "${free:-0}" -ge "$floor" ] || end_job "space only $((${free:-0} / 1048576)) MiB are free in $place, and at least $((floor / 1048576)) MiB must remain."
        [ "$(date +%s)" -lt "$until" ] || end_job "time the test did not end within $most_seconds s."
    done
}

# End what runs, so that the job ends. $1 the reason
end_job() {
    local pid
    echo "$1" >reason.new && mv -T -- reason.new reason
    for pid in $(cat pid.* 2>/dev/null) $(processes_of_scratch "$id"); do
        is_of_job "$pid" && kill -KILL "$pid" 2>/dev/null
    done
}

# Whether process $1 is in the session of this job.
is_of_job() { [ "$(session_of "$1")" = "$(session_of $$)" ] && [ -n "$(session_of "$1")" ]; }
session_of() {
    local line
    { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 0
    # shellcheck disable=SC2086  # numbers
    set -- ${line##*)}
    echo "$4"
}

# Before the end: the reason why the job was ended counts more than what it broke. $1 exit status
say_reason() {
    [ -z "${watcher-}" ] || kill "$watcher" 2>/dev/null
    if [ "$1" != 0 ] && [ -s reason ]; then echo "FAILED: $(cat reason)"; fi
}
