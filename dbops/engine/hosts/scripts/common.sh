#!/bin/bash
# Shared functions.

# Print the server processes whose working directory is $1 (a server changes into its data directory).
servers_in() {
    local wanted process name where
    wanted=$(identity_of "$1")
    [ -n "$wanted" ] || return 0
    for process in /proc/[0-9]*; do
        name=
        { read -r name <"$process/comm"; } 2>/dev/null # without starting a program for each process
        case $name in
            mariadbd | mysqld)
                # compare device and inode, so that servers in containers are found too; an unreadable process counts as a server
                # here, but an exiting process has no directory any more
                where=$(LC_ALL=C stat -L -c %d:%i -- "$process/cwd" 2>&1)
                case $where in "$wanted" | *'Permission denied'*) echo "${process#/proc/}" ;; esac
                ;;
        esac
    done
}

# Print device and inode of a directory, nothing if it is missing.
identity_of() {
    stat -L -c %d:%i -- "$1" 2>/dev/null || true
}

# Print the mount point of the file system that contains, or would contain, $1.
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

# The marker file of a rebuild in the directory that it created: the inode is not enough for mount points and reused inode
# numbers. $1 data directory  $2 run id
mark_of() { echo "$1/.dbops-$2"; }

# After the stream, the marker contains the inode of the system tablespace, so that data put into the same directory by
# others is not taken for this rebuild's. $1 data directory  $2 its marker
is_of_mark() {
    [ -f "$2" ] || return 1
    [ ! -s "$2" ] || [ "$(cat -- "$2")" = "$(stat -c %i -- "$1/ibdata1" 2>/dev/null)" ]
}

# Refuse unless $1 is the directory ($2 device:inode) that rebuild $3 created for its copy.
must_be_new_copy() {
    [ "$(identity_of "$1")" = "$2" ] || refuse "$1 is not the directory that this rebuild created."
    is_of_mark "$1" "$(mark_of "$1" "$3")" || refuse "$1 does not contain the marker of this rebuild."
}

# Print one checksum of inode, type, mode, owner, size and times of all files in $1; nothing if not all are readable. The
# change time cannot be set, and writing, moving, removing or chown changes it. Excludes directories moved aside, the times
# of $1 itself (moving aside changes them) and lost+found of a mount point.
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

# Refuse on a machine other than the plan's: a cloned machine has the same host key, directories and inodes.
# $1 name and machine id, empty if unknown
must_be_machine() {
    local here
    here="$(hostname 2>/dev/null || cat /proc/sys/kernel/hostname) $(cat /etc/machine-id 2>/dev/null)"
    [ -z "$1" ] || [ "${here% }" = "$1" ] || refuse "This machine is $here, but the plan is for $1."
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
