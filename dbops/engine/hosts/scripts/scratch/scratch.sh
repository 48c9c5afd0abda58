#!/bin/bash
# Names and removal of the directories of a job with a scratch server: a restore test or a load test. After the name of the job's kind
# (scratch_kind, "restore-test" or "load-test"). Both names contain the job's id; nothing else is touched.
# shellcheck disable=SC2154  # that

# Refuse an invalid id.
must_be_scratch_id() { case $1 in '' | *[!0-9a-f]*) refuse "$1 is not the id of a $scratch_kind." ;; esac }

# The directory with the copy ($1 place  $2 id), and root's own ($1 id). That one has "run" for socket and pid file, whose path must be
# short, and "view", where root shows the copy to an account that cannot enter its place.
scratch_of() { echo "$1/.dbops-$scratch_kind-$2"; }
sockets_of() { echo "/tmp/dbops-$scratch_kind-$1"; }

# Enter place $1, and set as_owner to the words before a command that changes names there: its own account, unless root alone can.
in_place_of() {
    as_owner=()
    cd -P -- "$1" || return 1
    [ "$(id -u)" = 0 ] && [ "$(stat -c %u .)" != 0 ] || return 0
    become "$(stat -c %u:%g .)"
}

# Print the processes of job $1 that serve or use its server, identified by their unique socket, or by the generator's unique script.
processes_of_scratch() {
    local process name socket script
    socket=$(sockets_of "$1")/run/s script=$(sockets_of "$1")/load/load.lua
    for process in /proc/[0-9]*; do
        name=
        { read -r name <"$process/comm"; } 2>/dev/null
        case $name in
            mariadbd | mysqld | mariadb | mysql | sysbench)
                { tr '\0' '\n' <"$process/cmdline" | grep -qxF -e "--socket=$socket" -e "--mysql-socket=$socket" -e "$script" && echo "${process#/proc/}"; } 2>/dev/null
                ;;
        esac
    done
}

# Stop the processes and remove both directories and the control group; false if something remains. $1 place  $2 id
remove_scratch() {
    local scratch sockets pids group groups=
    must_be_scratch_id "$2"
    scratch=$(scratch_of "$1" "$2") sockets=$(sockets_of "$2")
    for _ in $(seq 50); do
        pids=$(processes_of_scratch "$2")
        [ -n "$pids" ] || break
        # shellcheck disable=SC2086  # numbers
        kill -KILL $pids 2>/dev/null
        sleep 0.1
    done
    # remove links as links, and do not enter other mounted file systems
    (in_place_of "$1" && ${as_owner[@]+"${as_owner[@]}"} rm -rf --one-file-system -- "./${scratch##*/}") 2>/dev/null
    rm -rf --one-file-system -- "$sockets" 2>/dev/null
    for group in /sys/fs/cgroup{,/memory}/"dbops-$scratch_kind-$2"; do
        for _ in $(seq 50); do # the kernel keeps it until it has let go of the last process
            if [ ! -d "$group" ] || rmdir -- "$group" 2>/dev/null; then continue 2; fi
            sleep 0.1
        done
        groups=left
    done
    [ -z "$pids$groups" ] && [ ! -e "$scratch" ] && [ ! -L "$scratch" ] && [ ! -e "$sockets" ]
}
