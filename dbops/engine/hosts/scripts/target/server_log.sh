#!/bin/bash
# What a server says of its own start: the last errors in its log, or in the service manager's journal. Needs become.

# Print the path of the server's error log. $1 option file  $2 data directory  $3 group suffix
log_of_server() {
    local options path files=("--defaults-file=$1" ${3:+"--defaults-group-suffix=$3"})
    options=$(my_print_defaults "${files[@]}" --mysqld 2>/dev/null) ||
        options=$(my_print_defaults "${files[@]}" mysqld server mariadb mariadbd mysqld_safe 2>/dev/null)
    path=$(printf '%s\n' "$options" | sed -n 's/^--log[-_]error=//p' | tail -n 1)
    path=${path:-$(hostname 2>/dev/null || cat /proc/sys/kernel/hostname).err}
    case $path in /*) ;; *) path=$2/${path#./} ;; esac
    case ${path##*/} in *.*) ;; *) path=$path.err ;; esac
    echo "$path"
}

# Remember where the log ends now. $1 option file  $2 data directory  $3 group suffix
mark_server_log() {
    server_log=$(log_of_server "$1" "$2" "$3")
    server_log_bytes=$(as_owner stat -L -c %s -- "$server_log" 2>/dev/null || echo 0)
    server_log_since=$(date +%s)
}

# Print everything since then. The arguments are the start command, which can name a unit.
new_server_log() {
    local size word unit=
    size=$(as_owner stat -L -c %s -- "$server_log" 2>/dev/null || echo 0)
    [ "$size" -ge "$server_log_bytes" ] || server_log_bytes=0 # rotated since
    as_owner tail -c "+$((server_log_bytes + 1))" -- "$server_log" 2>/dev/null | tail -c 65536
    case " $* " in *systemctl*)
        for word; do case $word in -* | *systemctl) ;; *) unit=$word ;; esac done
        timeout 5 journalctl --no-pager -q -o cat -n 100 --since "@$server_log_since" -u "$unit" 2>/dev/null
        ;;
    esac
}

# Print what went wrong as one line, at most 1,000 characters: the last errors, else the last lines, else what the command printed.
server_errors() {
    local lines said
    lines=$(new_server_log "$@")
    said=$(printf '%s\n' "$lines" | grep -a -F '[ERROR]' | grep -a -v '\] Aborting *$' | tail -n 3)
    [ -n "$said" ] || said=$(printf '%s\n' "$lines" | grep -a -v '^[[:space:]]*$' | tail -n 3)
    [ -n "$said" ] || said=$(tail -n 3 log.out 2>/dev/null)
    printf '%s' "$said" | cut -c 1-330 | tr '\n' '|' | sed 's/|/ | /g; s/ | $//' | tr -d '\000-\037\177'
}
