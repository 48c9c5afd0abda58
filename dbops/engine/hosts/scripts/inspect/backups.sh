#!/bin/sh
# Processes, crontab lines and timers that run a backup. For a POSIX shell, together with probe.sh.

newline='
'

is_backup_tool() { # name of a process
    case $1 in mysqldump | mariadb-dump | mysqlpump | mydumper | xtrabackup* | mariadb-backup | mariabackup | innobackupex) ;; *) return 1 ;; esac
}

identify() { # sets state, parent and ticks (start since boot) of process $1; false if it has exited
    line=
    { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
    # shellcheck disable=SC2086  # the words after the name, which may hold spaces and brackets itself
    set -- ${line##*) }
    [ $# -ge 20 ] || return 1
    state=$1 parent=$2 ticks=${20}
}

ancestors() { # of process $1
    one=$1
    while [ "$one" -gt 1 ] && identify "$one"; do
        name=
        { read -r name <"/proc/$one/comm"; } 2>/dev/null
        printf 'parent %s %s %s\n' "$one" "$ticks" "$name"
        one=$parent
    done
}

endpoints() { # of the sockets with the given numbers
    cat "$process/net/tcp" "$process/net/tcp6" 2>/dev/null |
        awk -v mine=" $1 " 'index(mine, " " $10 " ") && $3 !~ /:0000$/ { print "tcp " $3 }'
    # the file is the server's end: its line names our number as the peer
    ss -xnH 2>/dev/null | awk -v mine=" $1 " 'substr($5, 1, 1) == "/" && index(mine, " " $8 " ") { print "unix " $5 }'
}

backup_process() { # of a possible backup process: its ancestors and open files
    pid=${process#/proc/}
    tool=$name
    identify "$pid" || return 0
    [ "$state" != Z ] || return 0
    read -r uptime _ </proc/uptime
    put "process.$pid" "tool $tool
start $boot $ticks $uptime $hertz
user $(stat -c %U "$process" 2>/dev/null)
$(ancestors "$parent")
cwd $(readlink "$process/cwd" 2>/dev/null)
$(find "$process/fd" -type l -printf 'fd %f %l\n' 2>/dev/null | head -c 262144)
$(stat -L -c 'output %s %F' "$process/fd/1" 2>/dev/null)
$(endpoints "$(find "$process/fd" -lname 'socket:*' -printf '%l ' 2>/dev/null | tr -dc '0-9 ')")"
    put "process.$pid.argv" "$(tr '\0' '\n' 2>/dev/null <"$process/cmdline" | head -c 8192)"
}

# shellcheck disable=SC2154  # backups, server_count: of probe.sh
backup_facts() {
    read -r boot </proc/sys/kernel/random/boot_id
    hertz=''
    for process in $backups; do
        name=
        { read -r name <"$process/comm"; } 2>/dev/null
        is_backup_tool "$name" || continue # another process has its number now
        hertz=${hertz:-$(getconf CLK_TCK 2>/dev/null || echo 100)}
        backup_process
    done
    put server_count "$server_count"
}

backup_tools='mysqldump|mariadb-dump|mysqlpump|mydumper|xtrabackup|mariadb-backup|mariabackup|innobackupex'

named_tool() { # the backup tools in the first line with one on standard input
    grep -v '^[[:space:]]*#' | grep -m 1 -owE "$backup_tools"
}

crontab_lines() { # lines that run a backup tool or a script that names one: "TOOL<TAB>LINE"; and time zone settings
    set -f
    while read -r line || [ -n "$line" ]; do
        case $line in
        '' | '#'*) continue ;;
        CRON_TZ*=*) printf '\t%s\n' "$line" && continue ;;
        esac
        tool=''
        case $line in *mysqldump* | *mariadb-dump* | *mysqlpump* | *mydumper* | *xtrabackup* | *maria*backup* | *innobackupex*)
            tool=$(printf '%s\n' "$line" | named_tool) ;;
        esac
        if [ -z "$tool" ]; then
            # shellcheck disable=SC2086  # into words, as cron's shell would; set -f leaves patterns alone
            for word in $line; do
                case $word in /*/dbops-backup-report) continue ;; /*) ;; *) continue ;; esac
                [ -f "$word" ] || continue
                tool=$(head -c 65536 "$word" 2>/dev/null | named_tool)
                [ -z "$tool" ] || break
            done
        fi
        [ -z "$tool" ] || printf '%s\t%s\n' "${tool%%"$newline"*}" "$line"
    done | head -n 50 | head -c 65536
    set +f
}

schedule_facts() {
    put schedules.zone "$(cat /etc/timezone 2>/dev/null || readlink /etc/localtime | sed 's|.*/zoneinfo/||')"
    for file in /etc/crontab /etc/cron.d/* /var/spool/cron/crontabs/* /var/spool/cron/*; do
        [ -f "$file" ] || continue
        [ -r "$file" ] || continue
        found=$(crontab_lines <"$file")
        [ -z "$found" ] || put "crontab.$file" "$found"
    done
    if [ ! -r /var/spool/cron/crontabs ] && [ ! -r /var/spool/cron ]; then
        found=$(crontab -l 2>/dev/null | crontab_lines)
        [ -z "$found" ] || put "crontab.own" "$found"
    fi
    for timer in /etc/systemd/system/*.timer /usr/lib/systemd/system/*.timer; do
        service=${timer%.timer}.service
        [ -r "$timer" ] || continue
        [ -r "$service" ] || continue
        command=$(sed -n 's/^ExecStart=[-@:+!]*//p' "$service" | head -n 1)
        found=$(printf '%s\n' "$command" | crontab_lines)
        [ -z "$found" ] || put "timer.$timer" "$(sed -n 's/^User=//p' "$service" | head -n 1)
$(sed -n 's/^OnCalendar=//p' "$timer" | head -n 1)
$found"
    done
}
