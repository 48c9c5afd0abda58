#!/bin/bash
# Functions that several scripts share.

# The server processes whose working directory is $1 (a server changes into its data directory).
servers_in() {
    local wanted process name
    wanted=$(readlink -f -- "$1") || return 0
    for process in /proc/[0-9]*; do
        name=
        { read -r name <"$process/comm"; } 2>/dev/null # no program is started for each of the host's processes
        case $name in
            mariadbd | mysqld) [ "$(readlink -- "$process/cwd" 2>/dev/null)" != "$wanted" ] || echo "${process#/proc/}" ;;
        esac
    done
}

# Device and inode of a directory, nothing where it is missing.
identity_of() {
    stat -c %d:%i -- "$1" 2>/dev/null || true
}

refuse() {
    echo "REFUSED: $*"
    exit 65
}

fail() {
    echo "FAILED: $*"
    exit 70
}
