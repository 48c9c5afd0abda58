#!/bin/bash
# Functions that release the source, for the guard and the clean-up. All can run repeatedly.
# The working directory is the run directory.

# Print the authorized_keys file of the SSH user ($1 file or empty, $2 user).
keys_file() {
    if [ -n "$1" ]; then echo "$1"; else echo "$(getent passwd "$2" | cut -d: -f6)/.ssh/authorized_keys"; fi
}

# Remove this run's lines from the file ($1 file, $2 run id); keep owner and mode. The file contains other keys too, so
# replace it only after all of them are written (grep: 1 if no lines are left, 2 on a full disk).
revoke_key() {
    [ -e "$1" ] || return 0
    (
        flock -w 10 8 || exit 1
        grep -a -q -F -- "dbops-$2" "$1" || exit 0
        cp -p -- "$1" "$1.dbops-$2" || exit 1
        grep -a -v -F -- "dbops-$2" "$1" >"$1.dbops-$2" || [ $? = 1 ] || exit 1
        mv -f -- "$1.dbops-$2" "$1"
    ) 8>>"$(dirname "$1")/.dbops-keys.lock"
}

# Set start to the start time of process $1 in ticks since boot; nothing if there is none.
read_start() {
    local line=''
    start=''
    { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
    # shellcheck disable=SC2086  # the words after the name, which may hold spaces and brackets itself
    set -- ${line##*) }
    start=${20-}
}

# Write pid $1 with its start time to file $2. (Inside $(...), $BASHPID would be another process.)
write_pid() {
    local start
    read_start "$1"
    echo "$1 $start" >"$2"
}

# Set living to the pid in a file while its process is alive, else to nothing; a reused pid has another start time.
find_living() {
    local pid started start
    living=''
    read -r pid started 2>/dev/null <"$1" || return 1
    read_start "$pid" && [ "$start" = "$started" ] || return 1
    living=$pid
}

living_pid() { find_living "$1" && echo "$living"; }

backup_pid() { living_pid backup.pid; }

# Send the guard's heartbeat; print the guard's state, the reason of a release, and whether replication is paused.
beat() {
    touch heartbeat
    # shared read: the leader can end while followers still receive, and its guard watches for all
    local leader living reason='' paused=''
    if { read -r leader <shared_read; } 2>/dev/null; then touch -c -- "$leader/heartbeat"; fi
    find_living guard.pid || :
    { read -r reason <given_back; } 2>/dev/null || :
    [ ! -e paused ] || paused=1
    printf 'guard=%s\ngiven_back=%s\npaused=%s\n' "$living" "$reason" "$paused"
}

# Print the backup's process group while any process of it is alive: children of a script can survive it.
backup_group() {
    local pid started
    read -r pid started 2>/dev/null <backup.pid || return 1
    # a number is reused only after its whole group has ended
    [ ! -e "/proc/$pid" ] || backup_pid >/dev/null || return 1
    kill -0 -- "-$pid" 2>/dev/null || return 1
    echo "$pid"
}

# mariadb-backup ignores SIGTERM and SIGHUP: SIGINT, then SIGKILL.
end_backup() {
    local group
    group=$(backup_group) || return 0
    kill -INT -- "-$group" 2>/dev/null
    for _ in $(seq 20); do
        backup_group >/dev/null || return 0
        sleep 0.1
    done
    kill -KILL -- "-$group" 2>/dev/null
}

# Resume the applier if we stopped it ($1 client program, $2 option file, $3 socket, $4 statement).
resume_replication() {
    [ -e paused ] || return 0
    "$1" --defaults-file="$2" --socket="$3" -e "$4" || return 1
    # the guard and the clean-up can do this at the same time
    mv -f paused resumed 2>/dev/null || [ ! -e paused ]
}
