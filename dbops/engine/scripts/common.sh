#!/bin/bash
# Functions that several scripts share.

# The server processes whose working directory is $1 (a server changes into its data directory).
servers_in() {
    local wanted process name where
    wanted=$(identity_of "$1")
    [ -n "$wanted" ] || return 0
    for process in /proc/[0-9]*; do
        name=
        { read -r name <"$process/comm"; } 2>/dev/null # no program is started for each of the host's processes
        case $name in
            mariadbd | mysqld)
                # by device and inode, so that a container's server is seen too; what may not be looked at counts as here,
                # but a process that is just ending has no directory any more
                where=$(LC_ALL=C stat -L -c %d:%i -- "$process/cwd" 2>&1)
                case $where in "$wanted" | *'Permission denied'*) echo "${process#/proc/}" ;; esac
                ;;
        esac
    done
}

# Device and inode of a directory, nothing where it is missing.
identity_of() {
    stat -L -c %d:%i -- "$1" 2>/dev/null || true
}

refuse() {
    echo "REFUSED: $*"
    exit 65
}

fail() {
    echo "FAILED: $*"
    exit 70
}
