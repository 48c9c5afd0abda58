#!/bin/bash
# What a proof of a backup makes on a host, and how all of it goes again. Both names carry the proof's id and nothing else is ever touched.

# Refuse an id that could name anything else.
must_be_proof() { case $1 in '' | *[!0-9a-f]*) refuse "$1 is no id of a proof." ;; esac }

# The directory with the copy ($1 place  $2 id), and the one with socket and pid file ($1 id): a socket's path must be short.
scratch_of() { echo "$1/.dbops-restore-test-$2"; }
sockets_of() { echo "/tmp/dbops-restore-test-$1"; }

# The server processes of proof $1: by their own socket, which no other server has.
servers_of_proof() {
    local process name word
    word=--socket=$(sockets_of "$1")/s
    for process in /proc/[0-9]*; do
        name=
        { read -r name <"$process/comm"; } 2>/dev/null
        case $name in
            mariadbd | mysqld) { tr '\0' '\n' <"$process/cmdline" | grep -qxF -e "$word" && echo "${process#/proc/}"; } 2>/dev/null ;;
        esac
    done
}

# End what still runs and remove both directories; false where something stayed. $1 place  $2 id
remove_scratch() {
    local scratch sockets pids
    must_be_proof "$2"
    scratch=$(scratch_of "$1" "$2") sockets=$(sockets_of "$2")
    for _ in $(seq 50); do
        pids=$(servers_of_proof "$2")
        [ -n "$pids" ] || break
        # shellcheck disable=SC2086  # numbers
        kill -KILL $pids 2>/dev/null
        sleep 0.1
    done
    # a link is removed as a link, and another file system that somebody mounted in there is left alone
    rm -rf --one-file-system -- "$scratch" "$sockets" 2>/dev/null
    [ -z "$pids" ] && [ ! -e "$scratch" ] && [ ! -L "$scratch" ] && [ ! -e "$sockets" ]
}
