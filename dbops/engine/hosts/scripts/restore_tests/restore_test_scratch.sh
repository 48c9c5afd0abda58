#!/bin/bash
# Names and removal of a restore test's directories. Both names contain the test's id; nothing else is touched.

# Refuse an invalid id.
must_be_restore_test() { case $1 in '' | *[!0-9a-f]*) refuse "$1 is not the id of a restore test." ;; esac }

# The directory with the copy ($1 place  $2 id), and root's own ($1 id). That one has "run" for socket and pid file, whose path must be
# short, and "view", where root shows the copy to an account that cannot enter its place.
scratch_of() { echo "$1/.dbops-restore-test-$2"; }
sockets_of() { echo "/tmp/dbops-restore-test-$1"; }

# Enter place $1, and set as_owner to the words before a command that changes names there: its own account, unless root alone can.
in_place_of() {
    as_owner=()
    cd -P -- "$1" || return 1
    [ "$(id -u)" = 0 ] && [ "$(stat -c %u .)" != 0 ] || return 0
    become "$(stat -c %u:%g .)"
}

# Print the server processes of restore test $1, identified by their unique socket.
servers_of_test() {
    local process name word
    word=--socket=$(sockets_of "$1")/run/s
    for process in /proc/[0-9]*; do
        name=
        { read -r name <"$process/comm"; } 2>/dev/null
        case $name in
            mariadbd | mysqld) { tr '\0' '\n' <"$process/cmdline" | grep -qxF -e "$word" && echo "${process#/proc/}"; } 2>/dev/null ;;
        esac
    done
}

# Stop the processes and remove both directories; false if something remains. $1 place  $2 id
remove_scratch() {
    local scratch sockets pids
    must_be_restore_test "$2"
    scratch=$(scratch_of "$1" "$2") sockets=$(sockets_of "$2")
    for _ in $(seq 50); do
        pids=$(servers_of_test "$2")
        [ -n "$pids" ] || break
        # shellcheck disable=SC2086  # numbers
        kill -KILL $pids 2>/dev/null
        sleep 0.1
    done
    # remove links as links, and do not enter other mounted file systems
    (in_place_of "$1" && ${as_owner[@]+"${as_owner[@]}"} rm -rf --one-file-system -- "./${scratch##*/}") 2>/dev/null
    rm -rf --one-file-system -- "$sockets" 2>/dev/null
    [ -z "$pids" ] && [ ! -e "$scratch" ] && [ ! -L "$scratch" ] && [ ! -e "$sockets" ]
}
