#!/bin/bash
# What systemd does with the server, if the start or stop command names a unit. Needs common.sh.

# Print the unit that a command starts or stops, nothing for a command other than systemctl's.
unit_of() {
    case "$# ${1##*/} ${2-}" in '3 systemctl start' | '3 systemctl stop') echo "$3" ;; esac
}

# Print property $1 of the unit of a start or stop command, nothing if its program does not tell it. Only this form is as old as
# systemd 219.
property_of() { "$2" show -p "$1" -- "$4" 2>/dev/null | sed 's/^[^=]*=//'; }

# Refuse a unit that could not start again after the copy, or that something else starts while its data is away. The arguments
# are the stop command.
must_be_startable() {
    local unit trigger
    unit=$(unit_of "$@")
    [ -n "$unit" ] || return 0
    case $(property_of LoadState "$@") in
        loaded | '') ;; # in a container, the program can be one that only starts and stops
        masked) refuse "The unit $unit is masked, so it cannot be started again. Run systemctl unmask $unit." ;;
        *) refuse "systemd has no usable unit $unit. Look at systemctl status $unit, and correct the unit in the inventory." ;;
    esac
    for trigger in $(property_of TriggeredBy "$@"); do
        ! "$1" -q is-active -- "$trigger" ||
            refuse "$trigger is active and would start $unit while its data is moved. Run systemctl stop $trigger."
    done
}

# Refuse if systemd does not know of the server: its unit would stop nothing. $1 data directory  $2 the server's processes
# then the stop command
must_be_of_unit() {
    local datadir=$1 pids=$2 unit state
    shift 2
    unit=$(unit_of "$@")
    [ -n "$unit" ] && [ -n "$pids" ] || return 0
    state=$(property_of ActiveState "$@")
    case $state in
        inactive | failed) refuse "Process $pids runs on $datadir, but its unit $unit is $state, so systemd cannot stop it. Stop this process." ;;
    esac
}

# Whether a unit that has no server on the data could start one: it waits to restart a failed one, is about to, or is a script of
# System V, which is active without a process. The arguments are the stop command.
may_start_again() {
    [ -n "$(unit_of "$@")" ] || return 1
    case $(property_of ActiveState "$@") in inactive | failed | '') return 1 ;; esac
}

# Let systemd start a unit again after many failed starts: it counts them, and a person requested this one. The arguments are
# the start command.
forget_failed_starts() {
    local unit
    unit=$(unit_of "$@")
    [ -z "$unit" ] || "$1" reset-failed -- "$unit" 2>/dev/null || :
}
