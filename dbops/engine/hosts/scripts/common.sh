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

# Where the file system is mounted on which $1 lies, or would be made.
mount_of() {
    local at
    at=$(readlink -m -- "$1")
    until [ -e "$at" ]; do
        at=${at%/*}
        at=${at:-/}
    done
    df --output=target -- "$at" | tail -n 1
}

# Whether $1 is the record of a published backup of run $2 with checksum $3.
is_record_of() {
    grep -Eqs "^ *\"run\": \"$2\",?\$" -- "$1" && grep -Eqs "^ *\"sha256\": \"$3\",?\$" -- "$1"
}

# Whether $1 is a published backup of $2 bytes, by the record beside it of run $3 with checksum $4.
is_backup_of() {
    [ -f "$1" ] && [ "$(stat -c %s -- "$1")" = "$2" ] && is_record_of "$1.json" "$3" "$4"
}

# The mark that a rebuild leaves in the directory that it made: an inode alone proves nothing where the directory is a mount
# point, or where its number was given out again. $1 data directory  $2 run id
mark_of() { echo "$1/.dbops-$2"; }

# Where the stream has ended the mark holds the inode of the system tablespace: other data, put into the same directory by
# somebody else, is not this rebuild's, whatever mark was left lying there. $1 data directory  $2 its mark
is_of_mark() {
    [ -f "$2" ] || return 1
    [ ! -s "$2" ] || [ "$(cat -- "$2")" = "$(stat -c %i -- "$1/ibdata1" 2>/dev/null)" ]
}

# Refuse unless $1 is the directory ($2 device:inode) that the rebuild $3 made for its copy.
must_be_new_copy() {
    [ "$(identity_of "$1")" = "$2" ] || refuse "$1 is not the directory that was made for this rebuild."
    is_of_mark "$1" "$(mark_of "$1" "$3")" || refuse "$1 does not hold the mark of the rebuild that made it."
}

# What lies in $1, as one checksum of each file's inode, kind, mode, owner, size and times; nothing where it cannot be read whole. A time of
# change cannot be set, and whatever is written, moved, removed or given to somebody changes one. What was moved aside does not count, nor
# the times of $1 itself, which tell of that too; nor lost+found of a mount point, which is root's.
tree_of() {
    local tree
    tree=$(
        set -o pipefail
        cd -- "$1" && find . -xdev \( -path './.dbops-old-*' -o -path './.dbops-failed-*' -o -path ./lost+found \) -prune \
            -o -path . -printf '%D:%i %y %m %U:%G\0' \
            -o -printf '%D:%i %y %m %U:%G %s %T@ %C@ %P\0' | LC_ALL=C sort -z | sha256sum
    ) 2>/dev/null || return 0
    echo "${tree%% *}"
}

# Refuse on another machine than the plan's: one that was cloned has the same host key, directories and inodes.
# $1 name and machine id, empty where they were not known
must_be_machine() {
    local here
    here="$(hostname 2>/dev/null || cat /proc/sys/kernel/hostname) $(cat /etc/machine-id 2>/dev/null)"
    [ -z "$1" ] || [ "${here% }" = "$1" ] || refuse "This machine is $here, the plan saw $1."
}

no_server_on() {
    local pids
    pids=$(servers_in "$1")
    [ -z "$pids" ] || refuse "A server runs on $1 (process $(echo "$pids" | tr '\n' ' '))."
}

refuse() {
    echo "REFUSED: $*"
    exit 65
}

fail() {
    echo "FAILED: $*"
    exit 70
}
