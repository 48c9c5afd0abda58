#!/bin/bash
# Run a load test on a scratch server that is restored from a published backup or made empty. Always remove all created files. Does not
# connect to or stop other servers on this host: the scratch server has no network, and clients and generator know its socket alone.
# log.steps has one line for each step's start and end, log.progress one for those of a round ("begin N", "end N"), round.N the result of a round, log.facts what was found.
# The arguments are those of read_copy_arguments; the path is empty for an empty server. The working directory has these files:
#   settings   lines "name=value"
#   rounds     one line for each round; its fields, separated by 0x1f: number, seconds of the whole load, copies of the schema, 1 for a
#              new start of the server, number of server options, these options, command line of the generator
#   fill       the command line that makes the generator's tables, separated by 0x1f; empty without
#   table.sql  the statements that make tables; empty without
#   sample.sql statements whose output are rows for load.input; absent without
#   load.lua, load.input   the generator's
#   tunnel.words   words of ssh to the generator's host, separated by 0x1f; empty if it runs here
#   load_relay.py   what carries its connections then
# A file "enough" ends the rounds early.
# shellcheck disable=SC2034,SC2154  # for the sourced functions, and of read_copy_arguments
set -u
umask 077
scratch_kind=load-test
read_copy_arguments "$@"
owner=65534:65534 # its statements are a person's, and the source's account often owns the files of a serving server
server_memory=0 generator_memory=0 server_cores=1 generator_cores=1 planned='' floor=0 floor_percent=0 most_seconds=3600 schema='' share=0 installers=()
initialise=() counters=() crashing=()
while IFS='=' read -r name value; do
    case $name in
        server_memory | generator_memory | server_cores | generator_cores | floor | floor_percent | most_seconds) printf -v "$name" '%d' "$value" ;;
        schema | share | planned) printf -v "$name" '%s' "$value" ;;
        installer) installers+=("$value") ;;
        initialise) initialise+=("$value") ;;
        crashing) crashing+=("$value") ;;
        counter) counters+=("$value") ;;
    esac
done <settings

# The host's program must be of the planned series, and of no release that crashes with many tables unless the plan was for that one.
must_be_planned_version() {
    local found one
    found=$("$program" --no-defaults --version 2>/dev/null </dev/null | sed -n 's/.* Ver \([0-9][0-9]*\.[0-9][0-9]*\.[0-9][0-9]*\).*/\1/p' | head -n 1)
    [ "${found%.*}" = "${planned%.*}" ] || refuse "version $program is ${found:-of an unknown version}, but the test is planned for $planned."
    [ "$found" != "$planned" ] || return 0
    for one in ${crashing[@]+"${crashing[@]}"}; do
        [ "$found" != "$one" ] || refuse "version $program is $found, which crashes at a restart with many tables. The test is planned for $planned."
    done
}

is_restored() { [ -n "$path" ]; }

step check
must_be_scratch_id "$id"
must_be_machine "$machine"
! is_restored || check_copy
check_server_programs 'A load test'
must_be_planned_version
if [ -s tunnel.words ]; then
    IFS=$'\x1f' read -r -d '' -a tunnel <tunnel.words
    relay=$(cat load_relay.py)
    check_tunnel
else
    command -v sysbench >/dev/null || refuse "tool sysbench is not installed on this host. Install the package sysbench."
fi
is_restored || installer=$(first_program "${installers[@]}") || refuse "tool ${installers[0]} is not installed on this host."
choose_floors
check_room 'the test'
lower_priority
export MALLOC_ARENA_MAX=2
choose_cores
choose_limit
enter_scratch
if is_tunnelled; then find_python; else place_generator "$sockets/load"; fi
begin_watch

make_empty_server() {
    (
        echo "$BASHPID" >pid.initialise
        exec 2>log.initialise >&2 </dev/null
        case $installer in
            */mysqld | */mariadbd) exec_as_owner "$installer" --no-defaults --initialize-insecure ${initialise[@]+"${initialise[@]}"} "--datadir=$seen_data" "--tmpdir=$seen_scratch/tmp" ;;
        esac
        exec_as_owner "$installer" --no-defaults ${initialise[@]+"${initialise[@]}"} "--datadir=$seen_data" "--tmpdir=$seen_scratch/tmp" \
            --skip-test-db --auth-root-authentication-method=normal
    )
    status=$?
    [ "$status" = 0 ] && return
    blame_the_host "$status" "an empty server was made" log.initialise
    fail "initialise the program ended with status $status: $(words_of log.initialise)"
}

if is_restored; then
    see_copy
    ulimit -S -v "$((most_memory / 1024))" || refuse "memory The limit of memory cannot be set."
    step unpack
    unpack_copy
    step prepare
    prepare_copy
    ulimit -S -v unlimited
else
    step initialise
    make_empty_server
fi
rm -f pid.*

# What the server runs with, after everything that a round asks for: it is reached by its socket alone. $@ options of the round
start_alone() {
    start_server "${options[@]}" "$@" --skip-networking --skip-grant-tables --init-file=/dev/null "--secure-file-priv=$seen_scratch/tmp"
    note_kills
}
restart_alone() {
    stop_server
    start_alone ${round_options[@]+"${round_options[@]}"}
}
must_serve() {
    kill -0 "$serving" 2>/dev/null && return
    ! is_out_of_memory || fail "out_of_memory the server needed more than its limit of $((server_memory / 1048576)) MiB ($limited_by) while $1."
    blame_the_host_of_server 0 "$1"
    fail "server the server ended while $1: $(errors_of_server)"
}

step start
layout=()
! is_restored || read_layout
start_alone
end_step

step fill
if [ -s fill ] || [ -s table.sql ]; then
    query -e 'CREATE DATABASE IF NOT EXISTS dbops_load' 2>log.ask || fail "fill the schema cannot be made: $(words_of log.ask)"
fi
if [ -s fill ]; then
    IFS=$'\x1f' read -r -d '' -a words <fill
    (fill_tables "${words[@]}")
    status=$?
    [ "$status" = 0 ] || {
        must_serve "tables were filled"
        ! grep -qi 'no space left\|is full' log.fill log.server || fail "space the disk became full while tables were filled."
        exit "$status"
    }
fi
if [ -s table.sql ]; then
    as_owner "${ask[@]}" "${only_sql[@]}" <table.sql 2>log.ask || fail "table_fails $(words_of log.ask)"
fi
end_step "$(du -sb -- "$data" | cut -f1)"

step rounds
ulimit -S -v "$((generator_memory / 1024 + 2097152))"
made=0 repeated='' is_sampled='' empty_tables=''
while IFS= read -r line; do
    [ -n "$line" ] || continue
    [ ! -e enough ] || break
    IFS=$'\x1f' read -r -a fields <<<"$line"
    number=${fields[0]} seconds=${fields[1]} schemas=${fields[2]} is_new=${fields[3]} count=${fields[4]}
    round_options=("${fields[@]:5:count}")
    [ "$is_new" = 0 ] || restart_alone
    if [ "$schemas" -gt "$made" ]; then
        (make_copies "$schema" "$schemas" "$share")
        status=$?
        [ "$status" = 0 ] || {
            must_serve "copies were made"
            exit "$status"
        }
        made=$schemas
        if [ -z "$is_sampled" ] && [ -s sample.sql ]; then
            empty_tables=$(sample_values)
            must_serve "values were sampled"
        fi
        is_sampled=1
    fi
    echo "begin $number $(date +%s.%3N)" >>log.progress
    load_words=("${fields[@]:5+count}")
    run_round "$number" "$seconds" "${load_words[@]}"
    status=$?
    # seldom, sysbench aborts without a word (134); its server is not the cause, so the round begins again, once
    if [ "$status" = 134 ]; then
        repeated+=${repeated:+,}$number
        [ "$is_new" = 0 ] || restart_alone
        run_round "$number" "$seconds" "${load_words[@]}"
        status=$?
    fi
    # dbops reads it once: as a log, all of them would be in each answer
    mv -T -- "log.round.$number" "round.$number" || fail "space the result of round $number cannot be kept."
    ! is_out_of_memory || must_serve "round $number ran"
    must_be_connected "$status" "round $number ran"
    [ "$status" = 0 ] || fail "round $number"
    must_serve "round $number ran"
    echo "end $number $(date +%s.%3N)" >>log.progress
done <rounds
end_step "$(du -sb -- "$data" | cut -f1)"
version=$(query -e 'SELECT VERSION()' 2>/dev/null)

step stop
stop_server
end_step
printf 'version=%s\nlimited_by=%s\nserver_cores=%s\ngenerator_cores=%s\nended=%s\n%s' "$version" "$limited_by" "$server_list" \
    "$(is_tunnelled || echo "$generator_list")" "$([ -e enough ] && echo enough || echo complete)" "${repeated:+repeated_rounds=$repeated
}${empty_tables:+empty_tables=$empty_tables
}" >log.facts
