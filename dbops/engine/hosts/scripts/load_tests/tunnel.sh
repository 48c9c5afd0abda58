#!/bin/bash
# Functions that run the load generator, here or on another host through ssh. After common.sh. They need
#   as_owner     from become
#   tunnel       words of ssh to the generator's host, without the word for the forced command; none if it runs here
#   sockets      the scratch server's directory, with its socket
# shellcheck disable=SC2154  # those

is_tunnelled() { [ "${#tunnel[@]}" -gt 0 ]; }

# Set python to the first one that the account of become can run: that of root can be in a directory of root's.
find_python() {
    while read -r python; do
        ! as_owner "$python" -c 'import ctypes, select' >/dev/null 2>&1 </dev/null || return 0
    done < <(type -ap python3 && echo /usr/libexec/platform-python)
    refuse "tool python3 is not installed here, or the load test’s account cannot run it. A load generator on another host needs it on both hosts."
}

# Check programs, memory and the way to the generator's host.
check_tunnel() {
    local answer status
    answer=$("${tunnel[@]}" check 2>&1 </dev/null)
    status=$?
    answer=$(printf '%s' "$answer" | tr '\n\t' '  ' | tr -d '\000-\037' | tail -c 400)
    case $answer in "REFUSED: tool "* | "REFUSED: memory "*) refuse "${answer#REFUSED: }" ;; esac
    { [ "$status" = 0 ] && [ "${answer%dbops-ready}" != "$answer" ]; } ||
        refuse "connection The load generator's host cannot be reached from here (status $status): $answer"
}

# Begin the load generator in the background, and set generator to the process that ends with its status.
# $1 file of its output  $2 file of its input  $3 its word on another host  then its command line here
begin_generator() {
    local output=$1 input=$2 word=$3
    shift 3
    if ! is_tunnelled; then
        (exec_as_owner ${generator_list:+taskset -c "$generator_list"} "$@") >"$output" 2>&1 <"$input" &
        generator=$! tunnelling=
    else
        rm -f tunnel.in tunnel.out
        mkfifo tunnel.in tunnel.out || fail "space files cannot be written in $PWD."
        (
            echo "$BASHPID" >pid.tunnel
            exec 2>log.tunnel >tunnel.out <tunnel.in
            exec ${generator_list:+taskset -c "$generator_list"} "${tunnel[@]}" "$word"
        ) &
        tunnelling=$!
        # what arrives is data, and root reads none of it
        (
            exec <tunnel.out 3>tunnel.in
            ulimit -n "$(ulimit -Hn)" 2>/dev/null
            exec_as_owner ${generator_list:+taskset -c "$generator_list"} "$python" -c "$relay" server "$sockets/run/s" "$tunnelling"
        ) >"$output" 2>log.relay &
        generator=$!
    fi
    echo "$generator" >pid.generator
}

# After the generator: its connection has ended too, and so has its process on the other host.
end_generator() {
    rm -f pid.generator
    [ -n "${tunnelling-}" ] || return 0
    for _ in $(seq 100); do
        kill -0 "$tunnelling" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$tunnelling" 2>/dev/null
    wait "$tunnelling" 2>/dev/null
    rm -f pid.tunnel tunnel.in tunnel.out
}

# Fail if status $1 says that the connection to the generator's host was lost. $2 activity
must_be_connected() {
    [ "$1" != 126 ] || ! is_tunnelled || fail "connection the connection to the load generator's host was lost while $2: $(tail -qn 3 log.tunnel log.relay 2>/dev/null | tr '\n\t' '  ' | head -c 400)"
}
tunnel=() relay='' python='' tunnelling=''
