#!/bin/bash
# Limits of a load test: cores and memory of its server and its load generator, free disk, and time. After scratch_server.sh. The job sets
# server_cores, generator_cores, server_memory, generator_memory (bytes), floor (free bytes of the disk), floor_percent and most_seconds.
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

# Print the free bytes that must remain on the file system of directory $1: the floor, or a share of a large one.
floor_of() {
    local size
    size=$(df -B1 --output=size -- "$1" | tail -n 1)
    size=$((${size:-0} * floor_percent / 100))
    echo "$((size > floor ? size : floor))"
}

# Set floors to what must remain free in the scratch directory's place and in the job's own directory, and raise what must be free now.
choose_floors() {
    [ -d "$place" ] || return 0
    watched=("$place" "$PWD")
    floors=("$(floor_of "$place")" "$(floor_of "$PWD")")
    needed=$((needed - floor + floors[0]))
    is_disk_left || refuse "space $short_of"
}

# Whether both file systems have more than their floors; otherwise short_of says which has not.
is_disk_left() {
    local number free
    for number in "${!watched[@]}"; do
        free=$(df -B1 --output=avail -- "${watched[number]}" 2>/dev/null | tail -n 1)
        [ "${free:-0}" -ge "${floors[number]}" ] && continue
        short_of="only $((${free:-0} / 1048576)) MiB are free in ${watched[number]}, and at least $((floors[number] / 1048576)) MiB must remain."
        return 1
    done
}

# Watch disk and time, in the background; end the job with a reason when either is used up, or when this shell was killed.
begin_watch() {
    session=$(session_of $$)
    watch_limits &
    watcher=$!
}
watch_limits() {
    local until
    until=$(($(date +%s) + most_seconds))
    while sleep 1; do
        kill -0 $$ 2>/dev/null || break
        is_disk_left || end_job "space $short_of"
        is_watched || end_job "unwatched dbops has not looked at the target for $watch_seconds s."
        [ "$(date +%s)" -lt "$until" ] || end_job "time the test did not end within $most_seconds s."
    done
    # what it had started would run without it
    for _ in 1 2 3 4 5; do
        end_job "killed the shell of the job was killed."
        remove_scratch "$place" "$id" && break
        sleep 1
    done
}

# Whether dbops still looks at what the load goes to. A scratch server needs no look.
is_watched() { :; }

# The server is gone, so the disk needs no watch: a limit that is reached during the removal is not the reason of the end.
before_removal() {
    [ -n "${watcher-}" ] || return 0
    kill "$watcher" 2>/dev/null
    wait "$watcher" 2>/dev/null
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
is_of_job() { [ -n "$session" ] && [ "$(session_of "$1")" = "$session" ]; }
session_of() {
    local line
    { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 0
    # shellcheck disable=SC2086  # numbers
    set -- ${line##*)}
    echo "$4"
}

# Before the end: the reason why the job was ended counts more than what it broke. $1 exit status
say_reason() {
    if [ "$1" != 0 ] && [ -s reason ]; then echo "FAILED: $(cat reason)"; fi
}
