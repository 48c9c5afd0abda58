#!/bin/sh
# What a host shows of itself and of one data directory: records "KEY<TAB>VALUE<NUL>" on standard output, nothing is changed.
#
#   probe.sh DATADIR DEFAULTS_FILE MEASURE SOCKET [STATEMENT...]
#
# MEASURE 1 adds sizes, which read the whole directory tree. Standard input: an option file for the backup account, which
# then runs each STATEMENT over the local socket, to see whether it may.
set -u
umask 077
PATH=${PATH:-/usr/bin:/bin}:/usr/local/bin:/usr/local/sbin:/usr/sbin:/sbin:/usr/libexec:/usr/local/mysql/bin
LC_ALL=C
export PATH LC_ALL

datadir=$1 defaults_file=$2 measure=$3 socket=$4
shift 4

put() { printf '%s\t%s\000' "$1" "$2"; }

ssh_connection() { # sudo takes it out of the environment; some ancestor still has it
    process=$$
    while [ "$process" -gt 1 ]; do
        found=$(tr '\0' '\n' 2>/dev/null <"/proc/$process/environ" | sed -n 's/^SSH_CONNECTION=//p')
        [ -z "$found" ] || break
        process=$(sed -n 's/^PPid:[^0-9]*//p' "/proc/$process/status") || break
    done
    printf '%s' "$found"
}

host_facts() {
    put time.first "$(date +%s.%N)"
    put hostname "$(hostname 2>/dev/null || cat /proc/sys/kernel/hostname)"
    put machine_id "$(cat /etc/machine-id 2>/dev/null)"
    put ssh_connection "${SSH_CONNECTION:-$(ssh_connection)}"
    put cpu_count "$(nproc)"
    put memory_available_kib "$(sed -n 's/^MemAvailable: *\([0-9]*\).*/\1/p' /proc/meminfo)"
    put has_aes "$(grep -qw aes /proc/cpuinfo && echo 1)"
    put ssh_ciphers "$(ssh -Q cipher 2>/dev/null)"
    # shellcheck disable=SC3045  # every sh that runs on these hosts has -H
    put open_files_limit "$(ulimit -Hn)"
    put has_systemd "$([ -d /run/systemd/system ] && echo 1)"
}

tool_facts() {
    for name in mariadb-backup mariabackup xtrabackup xbstream mbstream mariadbd mysqld mariadb mysql \
        ssh ssh-keygen flock setsid setpriv bash systemctl; do
        path=$(command -v "$name") || continue
        case $name in
        xbstream) said=$(timeout 5 "$path" --version 2>&1) ;;
        ssh) said=$(ssh -V 2>&1) ;;
        mbstream | ssh-keygen | flock | setsid | setpriv | bash | systemctl) said='' ;;
        *) said=$(timeout 5 "$path" --no-defaults --version 2>&1) ;;
        esac
        put "tool.$name" "$path
$said"
    done
}

config_facts() {
    command -v my_print_defaults >/dev/null || return 0
    if [ -n "$defaults_file" ]; then
        set -- "--defaults-file=$defaults_file"
        [ -r "$defaults_file" ] || return 0
    fi
    # --mysqld: the groups that the server itself reads; MySQL's program does not know it
    options=$(my_print_defaults "$@" --mysqld 2>/dev/null) ||
        options=$(my_print_defaults "$@" mysqld server mariadb mariadbd 2>/dev/null) || return 0
    put config "$options"
    [ -n "$socket" ] || socket=$(printf '%s\n' "$options" | sed -n 's/^--socket=//p' | tail -n 1)
}

sizes() { # what a backup sends, and everything; nothing is said when it takes too long
    {
        # what was moved aside on a mount point is neither sent nor removed
        timeout 10 find "$real" \( -name '.dbops-old-*' -o -name '.dbops-failed-*' \) -prune -o \
            -type f -printf 'all %s\n' \( -name '*.ibd' -o -name 'ibdata*' -o -name 'undo*' \
            -o -name '*.ibu' -o -name '*.MYD' -o -name '*.MYI' -o -name '*.MAD' -o -name '*.MAI' -o -name 'aria_log*' \
            -o -name '*.CSV' -o -name '*.CSM' -o -name '*.ARZ' -o -name '*.ARM' -o -name '*.frm' -o -name '*.sdi' \
            -o -name '*.par' -o -name '*.opt' -o -name '*.TRG' -o -name '*.TRN' -o -name '*.isl' -o -name '*.MRG' \) \
            -printf 'data %s\n' 2>/dev/null
        [ $? -eq 124 ] || echo complete
    } | awk '{ sum[$1] += $2 } END { if ("complete" in sum) printf "%.0f %.0f", sum["data"], sum["all"] }'
}

server_pids() { # a server changes into its data directory
    for process in /proc/[0-9]*; do
        name=
        { read -r name <"$process/comm"; } 2>/dev/null
        case $name in
        mariadbd | mysqld) [ "$(readlink "$process/cwd")" != "$real" ] || printf '%s ' "${process#/proc/}" ;;
        esac
    done
}

datadir_facts() {
    real=$(readlink -m -- "$datadir")
    put datadir.path "$real"
    nearest=$real
    until [ -d "$nearest" ]; do nearest=$(dirname -- "$nearest"); done
    put datadir.filesystem "$(df -PT -- "$nearest" 2>/dev/null | awk 'NR == 2 { print $(NF - 5) }')"
    put datadir.free_bytes "$(df -PB1 -- "$nearest" 2>/dev/null | awk 'NR == 2 { print $(NF - 2) }')"
    [ -d "$real" ] || return 0
    put datadir.identity "$(stat -c %d:%i -- "$real")"
    put datadir.owner "$(stat -c %U:%G -- "$real")"
    if content=$(ls -A -- "$real" 2>/dev/null); then put datadir.is_empty "$([ -n "$content" ] || echo 1)"; fi
    put datadir.is_mount_point "$([ "$(stat -c %m -- "$real")" != "$real" ] || echo 1)"
    put datadir.server_pids "$(server_pids)"
    [ "$measure" != 1 ] || put datadir.sizes "$(sizes)"
}

account_facts() { # statements
    [ $# -gt 0 ] || return 0
    client=$(command -v mariadb || command -v mysql) || client=
    directory=$(mktemp -d) || return 0
    trap 'rm -rf "$directory"' EXIT
    trap 'exit 1' HUP INT TERM PIPE
    cat >"$directory/client.cnf"
    number=0
    for statement in "$@"; do
        if [ -z "$client" ]; then
            error='no mariadb or mysql client program on this host'
        elif [ -z "$socket" ]; then
            error='the socket of the server is not known'
        elif error=$(timeout 5 "$client" "--defaults-file=$directory/client.cnf" "--socket=$socket" --batch --silent \
            -e "$statement" 2>&1 >/dev/null); then
            error=
        else
            error=${error:-no answer in 5 s}
        fi
        put "statement.$number" "$error"
        number=$((number + 1))
    done
}

host_facts
tool_facts
config_facts
datadir_facts
account_facts "$@"
put time.last "$(date +%s.%N)"
