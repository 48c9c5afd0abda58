#!/bin/bash
# Giving the source back: shared by the guard and by the clean-up. Each part may run any number of times.
# The working directory is the run directory.

# The authorized_keys file of the SSH user ($1 file or empty, $2 user).
keys_file() {
    if [ -n "$1" ]; then echo "$1"; else echo "$(getent passwd "$2" | cut -d: -f6)/.ssh/authorized_keys"; fi
}

# Take every line of this run out of the file ($1 file, $2 run id), keeping owner and mode.
revoke_key() {
    [ -e "$1" ] || return 0
    (
        flock -w 10 8 || exit 1
        grep -q -F -- "dbops-$2" "$1" || exit 0
        cp -p -- "$1" "$1.dbops-$2" && { grep -v -F -- "dbops-$2" "$1" >"$1.dbops-$2" || true; } && mv -f -- "$1.dbops-$2" "$1"
    ) 8>>"$(dirname "$1")/.dbops-keys.lock"
}

# Print the pid of the backup process while it lives; a reused pid has another start time.
backup_pid() {
    local pid started
    read -r pid started 2>/dev/null <backup.pid || return 1
    [ "$(cut -d' ' -f22 "/proc/$pid/stat" 2>/dev/null)" = "$started" ] || return 1
    echo "$pid"
}

# mariadb-backup ignores SIGTERM and SIGHUP: SIGINT, then SIGKILL.
end_backup() {
    local pid
    pid=$(backup_pid) || return 0
    kill -INT "$pid" 2>/dev/null
    for _ in $(seq 20); do
        backup_pid >/dev/null || return 0
        sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null
}

# Start the applier again if we stopped it ($1 client program, $2 option file, $3 socket, $4 statement).
resume_replication() {
    [ -e paused ] || return 0
    "$1" --defaults-file="$2" --socket="$3" -e "$4" || return 1
    # the guard and the clean-up may do this at the same moment
    mv -f paused resumed 2>/dev/null || [ ! -e paused ]
}
