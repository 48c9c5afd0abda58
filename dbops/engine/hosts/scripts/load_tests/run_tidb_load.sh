#!/bin/bash
# Run the rounds of a load test whose target is a TiDB cluster without data: the load generator alone, without a scratch server. dbops has
# checked and claimed the cluster, and removes its schema at the end. Always removes all created files.
# log.steps, log.progress, round.N, log.facts and the arguments are as in run_load_test.sh; those of backup and server are empty.
# The working directory has these files:
#   settings   lines "name=value"
#   rounds     as in run_load_test.sh
#   seen       touched by dbops
#   load.lua, load.input   the generator's; load.input has the password of the load's account
# shellcheck disable=SC2034,SC2154  # for the sourced functions, and of read_copy_arguments
set -u
umask 077
scratch_kind=load-test
read_copy_arguments "$@"
owner=65534:65534
generator_memory=0 server_cores=0 generator_cores=1 floor=0 floor_percent=0 most_seconds=3600
while IFS='=' read -r name value; do
    case $name in
        generator_memory | generator_cores | floor | floor_percent | most_seconds) printf -v "$name" '%d' "$value" ;;
    esac
done <settings

# The server is elsewhere: it has no process, counters or waits here.
sample() { :; }
kill_server() { :; }

# The cluster could come to serve while no worker looks: dbops touches this file after each look.
watch_seconds=180
is_watched() { [ $(($(date +%s) - $(stat -c %Y seen 2>/dev/null || echo 0))) -le "$watch_seconds" ]; }

step check
must_be_scratch_id "$id"
must_be_machine "$machine"
command -v sysbench >/dev/null || refuse "tool sysbench is not installed on this host. Install the package sysbench."
choose_floors
check_room 'the test'
lower_priority
export MALLOC_ARENA_MAX=2
choose_cores
enter_scratch
place_generator "$sockets/load"
: >seen
begin_watch
serving=$$

step rounds
ulimit -S -v "$((generator_memory / 1024 + 2097152))"
while IFS= read -r line; do
    [ -n "$line" ] || continue
    IFS=$'\x1f' read -r -a fields <<<"$line"
    number=${fields[0]} seconds=${fields[1]}
    load_words=("${fields[@]:5+fields[4]}")
    echo "begin $number $(date +%s.%3N)" >>log.progress
    run_round "$number" "$seconds" "${load_words[@]}"
    status=$?
    # seldom, sysbench aborts without a word (134); its server is not the cause, so the round begins again, once
    if [ "$status" = 134 ]; then
        run_round "$number" "$seconds" "${load_words[@]}"
        status=$?
    fi
    mv -T -- "log.round.$number" "round.$number" || fail "space the result of round $number cannot be kept."
    [ "$status" = 0 ] || fail "round $number"
    echo "end $number $(date +%s.%3N)" >>log.progress
done <rounds
end_step
printf 'generator_cores=%s\nended=complete\n' "$generator_list" >log.facts
