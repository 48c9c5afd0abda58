# shellcheck shell=bash
# To be sourced. Forward the signals that end this script to its command, and wait until the command has ended.

#   relayed COMMAND...     run the command; return its exit status, or exit if this script received a signal
relayed() {
    local status=0 signaled=
    "$@" &
    relayed_pid=$!
    trap 'signaled=yes; kill -TERM "$relayed_pid" 2>/dev/null' TERM INT HUP
    wait "$relayed_pid" || status=$?
    # A signal interrupts the wait, not the command.
    while [ -n "$signaled" ] && kill -0 "$relayed_pid" 2>/dev/null; do wait "$relayed_pid" || status=$?; done
    trap - TERM INT HUP
    [ -z "$signaled" ] || exit 143
    return "$status"
}
