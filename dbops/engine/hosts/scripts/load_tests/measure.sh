#!/bin/bash
# Functions that run the load generator on a scratch server and measure a round. After common.sh and tunnel.sh. They need
#   as_owner, ask    from become, and the client's words
#   serving          the process of the scratch server
#   counters         names of status counters
# and the files load.lua and, for some loads, load.input in the working directory.
# shellcheck disable=SC2154  # those

# Put the generator's script into the new directory $1, where the account of the data can read it. Only root writes there.
place_generator() {
    command -v sysbench >/dev/null || refuse "tool sysbench is not installed on this host."
    { mkdir -m 0755 -- "$1" && install -m 0644 -- load.lua "$1/load.lua"; } || fail "space $1 cannot be made."
}

# Run a command of the generator that makes or drops tables. The command line
fill_tables() {
    local status
    begin_generator log.fill /dev/null fill "$@"
    wait "$generator" 2>/dev/null
    status=$?
    end_generator
    must_be_connected "$status" "tables were filled"
    [ "$status" = 0 ] || fail "fill the load generator ended with status $status: $(last_words log.fill)"
}

# Print the last lines of the generator in file $1, without those of the report.
last_words() { grep -av -e '^dbops \(bucket\|second\)' -e '^$' -- "$1" 2>/dev/null | tail -n 6 | tr '\n\t' '  ' | tr -d '\000-\037' | head -c 800; }

# Print the CPU ticks of process $1, and the time. The name in the file can contain spaces and parentheses.
ticks_of() {
    local line
    { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 0
    # shellcheck disable=SC2086  # numbers
    set -- ${line##*)}
    echo "$((${12} + ${13})) $(date +%s.%3N)"
}

# Print status counters and waits of the server, one a line.
read_counters() {
    local list
    printf -v list "'%s'," ${counters[@]+"${counters[@]}"}
    # (a frozen server must not stop the test)
    (exec_as_owner timeout -k 1 20 "${ask[@]}" -e "SHOW GLOBAL STATUS WHERE Variable_name IN (${list}'Uptime');
        SELECT 'wait', EVENT_NAME, COUNT_STAR, SUM_TIMER_WAIT FROM performance_schema.events_waits_summary_global_by_event_name
        WHERE COUNT_STAR > 0 AND EVENT_NAME <> 'idle'") 2>/dev/null </dev/null |
        awk -F '\t' -v "at=$1" '{ if ($1 == "wait") print "wait", at, $2, $3, $4; else print "counter", at, $1, $2 }'
}

# Print what a sample of the server is. $1 before or after
sample() {
    printf 'server %s %s\n' "$1" "$(ticks_of "$serving")"
    read_counters "$1"
}

# Seconds after its planned end until a generator is killed: its statements wait for a frozen server.
patience=60

# Run one round: the warm-up, then the measured seconds. Writes log.round.N in one piece, also of a round that failed.
# Returns the generator's status: 124 if it did not end in time, 125 if the server ended.
# $1 number  $2 seconds of the whole load  then the command line
run_round() {
    local number=$1 deadline status input=/dev/null is_sampled=
    deadline=$(($(date +%s) + $2 + patience))
    shift 2
    [ ! -f load.input ] || input=load.input
    : >load.out
    printf 'round %s\nticks %s\n' "$number" "$(getconf CLK_TCK)" >load.samples
    begin_generator load.out "$input" "round-$number" "$@"
    while kill -0 "$generator" 2>/dev/null; do
        if [ -z "$is_sampled" ] && grep -q '^dbops measuring' load.out; then
            is_sampled=1
            sample before >>load.samples
        fi
        if ! kill -0 "$serving" 2>/dev/null; then status=125; fi
        if [ "$(date +%s)" -ge "$deadline" ]; then status=124; fi
        [ -z "${status-}" ] || { kill -KILL "$generator" 2>/dev/null && break; }
        sleep 0.1
    done
    wait "$generator" 2>/dev/null
    status=${status:-$?}
    [ -z "$is_sampled" ] || [ "$status" = 124 ] || sample after >>load.samples
    # the server can have ended just before the generator did
    [ "$status" = 0 ] || kill -0 "$serving" 2>/dev/null || status=125
    end_generator
    {
        cat load.samples
        grep -a '^dbops ' load.out
        printf 'status %s\nwords %s\n' "$status" "$(last_words load.out)"
    } >log.round.new 2>/dev/null
    mv -T -- log.round.new "log.round.$number" || fail "space the result of round $number cannot be written."
    rm -f load.out load.samples
    return "$status"
}
