# shellcheck shell=bash
# To be sourced. A script that is told to end tells its command, and waits until that has ended: nothing is left of it.

#   relayed COMMAND...     run the command; return its exit status, or end this script when it was told to end
relayed() {
    local status=0 told=
    "$@" &
    relayed_pid=$!
    trap 'told=yes; kill -TERM "$relayed_pid" 2>/dev/null' TERM INT HUP
    wait "$relayed_pid" || status=$?
    # A signal ends the wait, not the command.
    while [ -n "$told" ] && kill -0 "$relayed_pid" 2>/dev/null; do wait "$relayed_pid" || status=$?; done
    trap - TERM INT HUP
    [ -z "$told" ] || exit 143
    return "$status"
}
