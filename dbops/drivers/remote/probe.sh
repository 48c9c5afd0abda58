#!/bin/sh
# Print facts of a host and one data directory as records "KEY<TAB>VALUE<NUL>". Changes nothing.
#
#   probe.sh DATADIR DEFAULTS_FILE INSPECT SOCKET KNOWN PLUGIN_DIR GROUP_SUFFIX [STATEMENT...]
#
# KNOWN: lines "PATH IDENTITY" of programs with known versions, which are not started again. INSPECT 2 adds links, keys and
# plugins; 1 also sizes, which read the whole directory tree, what programs say about the storage, and crontab lines and timers that
# run a backup. Standard input: an option file for the backup account, which then runs each STATEMENT over the local socket, to test
# its rights.
set -u
umask 077
PATH=${PATH:-/usr/bin:/bin}:/usr/local/bin:/usr/local/sbin:/usr/sbin:/sbin:/usr/libexec:/usr/local/mysql/bin
export PATH LC_ALL=C
# shellcheck disable=SC3045  # as for -H below; seconds of a processor: no fault in here may keep the host busy
ulimit -t 300
unset LIBMYSQL_ENABLE_CLEARTEXT_PLUGIN LIBMYSQL_PLUGINS
datadir=$1 defaults_file=$2 inspect=$3 socket=$4 known=$5 plugin_dir=$6 group_suffix=$7 options=
shift 7

put() { printf '%s\t%s\000' "$1" "$2"; }

# Programs of others can print anything or nothing. One that does hides no other fact: output and time are limited.
patience=3
limited() { # BYTES COMMAND...: its output's start; "no answer in N s" where it hangs
    bytes=$1
    shift
    {
        timeout -k 1 "$patience" "$@" 2>&1
        case $? in 124 | 137) echo "$no_answer $patience s" ;; esac
    } | head -c "$bytes"
}
no_answer='no answer in'

ssh_connection() { # sudo removes it from the environment; an ancestor still has it
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
    put ssh_ciphers "$(limited 8192 ssh -Q cipher | grep -v ' ')"
    # shellcheck disable=SC3045  # every sh that runs on these hosts has -H
    put open_files_limit "$(ulimit -Hn)"
    put has_systemd "$([ -d /run/systemd/system ] && echo 1)"
}

tool_facts() { # each program's path, its file identity if the version is needed, and its version output
    set --
    for name in mariadb-backup mariabackup xtrabackup xbstream mbstream mariadbd mysqld mariadb mysql \
        mariadb-dump mysqldump \
        ssh ssh-keygen flock setsid setpriv bash systemctl zstd \
        gzip python3 mariadb-install-db mysql_install_db sysbench; do
        path=$(command -v "$name") || continue
        set -- "$@" "$path"
    done
    files="
$(stat -L -c '%n %d:%i:%s:%Z' -- "$@" 2>/dev/null)
"
    for path in "$@"; do
        identity='' said=''
        case ${path##*/} in
        mbstream | ssh-keygen | flock | setsid | setpriv | bash | systemctl | zstd | gzip | python3 | sysbench | *-install-db | *_install_db) ;;
        *)
            identity=$(identity_in "$files")
            [ -n "$identity" ] && [ "$identity" = "$(identity_in "$known")" ] || said=$(version)
            case $said in *"$no_answer"*) patience=1 ;; esac # all must fit into one probe
            ;;
        esac
        put "tool.${path##*/}" "$path
$identity
$said"
    done
}

identity_in() { # of "path" in these lines, without starting a program
    rest=${1#*"
$path "}
    [ "$rest" = "$1" ] || printf '%s' "${rest%%"
"*}"
}

version() {
    case ${path##*/} in
    xbstream) limited 16384 "$path" --version ;;
    ssh) limited 16384 ssh -V ;;
    *) limited 16384 "$path" --no-defaults --version ;;
    esac
}

config_facts() {
    command -v my_print_defaults >/dev/null || return 0
    if [ -n "$defaults_file" ]; then
        set -- "--defaults-file=$defaults_file"
        [ -r "$defaults_file" ] || return 0
    fi
    [ -z "$group_suffix" ] || set -- "$@" "--defaults-group-suffix=$group_suffix"
    # --mysqld: the groups that the server reads; MySQL's program does not support it
    options=$(timeout 5 my_print_defaults "$@" --mysqld 2>/dev/null) ||
        options=$(timeout 5 my_print_defaults "$@" mysqld server mariadb mariadbd 2>/dev/null) || { options= && return 0; }
    put config "$options"
    [ -n "$socket" ] || socket=$(printf '%s\n' "$options" | sed -n 's/^--socket=//p' | tail -n 1)
}

sizes() { # bytes of a backup, and total bytes; nothing if it takes too long
    {
        # directories moved aside on a mount point are neither sent nor removed
        timeout 10 find "$real" \( -name '.dbops-old-*' -o -name '.dbops-failed-*' \) -prune -o \
            -type f -printf 'all %s\n' \( -name '*.ibd' -o -name 'ibdata*' -o -name 'undo*' \
            -o -name '*.ibu' -o -name '*.MYD' -o -name '*.MYI' -o -name '*.MAD' -o -name '*.MAI' -o -name 'aria_log*' \
            -o -name '*.CSV' -o -name '*.CSM' -o -name '*.ARZ' -o -name '*.ARM' -o -name '*.frm' -o -name '*.sdi' \
            -o -name '*.par' -o -name '*.opt' -o -name '*.TRG' -o -name '*.TRN' -o -name '*.isl' -o -name '*.MRG' \) \
            -printf 'data %s\n' 2>/dev/null
        [ $? -eq 124 ] || echo complete
    } | awk '{ sum[$1] += $2 } END { if ("complete" in sum) printf "%.0f %.0f", sum["data"], sum["all"] }'
}

kept_size() { # bytes of earlier data directories that were moved aside; nothing if it takes too long
    {
        for place in "$real".dbops-old-* "$real".dbops-failed-* "$real"/.dbops-old-* "$real"/.dbops-failed-*; do
            [ -d "$place" ] || continue
            [ ! -L "$place" ] || continue
            timeout 3 find "$place" -xdev -type f -printf '%s\n' 2>/dev/null
            [ $? -ne 124 ] || exit 0
        done
        echo complete
    } | awk '{ sum += $1; last = $1 } END { if (last == "complete") printf "%.0f", sum }'
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

# The lowest directory above the data in which an account other than root and the data's owner can exchange names (common.sh).
exchangeable() {
    at=$(dirname -- "$real") owner=$(stat -c %U -- "$real" 2>/dev/null || echo root)
    [ -d "$at" ] || at=$nearest
    [ "$(id -u)" = 0 ] || return 0
    [ "$owner" = root ] || ! setpriv "--reuid=$owner" "--regid=$(id -gn -- "$owner")" --init-groups test -w "$at" 2>/dev/null || return 0
    exchangeable_at "$at"
}

datadir_facts() {
    real=$(readlink -m -- "$datadir")
    put datadir.path "$real"
    nearest=$real
    until [ -d "$nearest" ]; do nearest=${nearest%/*} && nearest=${nearest:-/}; done
    put datadir.filesystem "$(df --output=fstype -- "$nearest" 2>/dev/null | tail -n +2)"
    put datadir.free_bytes "$(df -B1 --output=avail -- "$nearest" 2>/dev/null | tail -n +2 | tr -d ' ')"
    put datadir.disk_bytes "$(df -B1 --output=size -- "$nearest" 2>/dev/null | tail -n +2 | tr -d ' ')"
    find_storage "$nearest"
    put datadir.storage "$(storage "$nearest")"
    put datadir.layers "$(layers)"
    [ "$inspect" != 1 ] || put datadir.answers "$(answers)"
    put datadir.exchangeable "$(exchangeable)"
    [ -d "$real" ] || return 0
    put datadir.identity "$(stat -c %d:%i -- "$real")"
    put datadir.owner "$(stat -c %U:%G -- "$real")"
    for file in ibdata1 mysql; do # created once with the data; new data has a new file
        born=$(stat -c '%i %W' -- "$real/$file" 2>/dev/null) || continue
        put datadir.files "$file $born"
        break
    done
    if content=$(ls -A -- "$real" 2>/dev/null); then put datadir.is_empty "$([ -n "$content" ] || echo 1)"; fi
    put datadir.is_mount_point "$([ "$(stat -c %m -- "$real")" != "$real" ] || echo 1)"
    put datadir.server_pids "$(server_pids)"
    [ "$inspect" != 1 ] || put datadir.sizes "$(sizes)"
    [ "$inspect" != 1 ] || put datadir.kept "$(kept_size)"
}

option() { # the last value of an option, given as a pattern with [-_]
    printf '%s\n' "$options" | sed -n "s/^--\(loose[-_]\)\{0,1\}$1=//p" | tail -n 1
}

in_datadir() { # a path as the server, which runs in its data directory, reads it
    case $1 in /*) printf '%s' "$1" ;; *) printf '%s' "$real/$1" ;; esac
}

hashed() { sha256sum | cut -d' ' -f1; }

plain_keys() { # lines "ID;KEY" of standard input, each in one way of writing
    sed 's/#.*//' | tr -d ' \t\r' | tr A-F a-f | grep . | sort
}

key_facts() { # one hash of ids and keys in the key file of file_key_management. Prints no key.
    file=$(option 'file[-_]key[-_]management[-_]filename')
    [ -n "$file" ] || return 0
    file=$(in_datadir "$file")
    if [ ! -f "$file" ] || [ ! -r "$file" ]; then printf unreadable && return; fi
    if [ "$(head -c 8 -- "$file" | tr -d '\0')" != Salted__ ]; then
        head -c 1048576 -- "$file" | plain_keys | hashed
        return
    fi
    secret=$(option 'file[-_]key[-_]management[-_]filekey')
    case $secret in
    [Ff][Ii][Ll][Ee]:*) secret=$(head -n 1 -- "$(in_datadir "${secret#?????}")" 2>/dev/null | tr -d '\r') ;;
    esac
    # a wrong passphrase gives an error or other bytes
    keys=$(printf '%s\n' "$secret" | timeout 5 openssl enc -d -aes-256-cbc -md sha1 -pass stdin -in "$file" 2>/dev/null | plain_keys)
    if [ -n "$keys" ] && ! printf '%s\n' "$keys" | grep -Evaq '^[0-9]+;[0-9a-f]+$'; then
        printf '%s\n' "$keys" | hashed
    else
        printf 'sealed:%s' "$({ cat -- "$file" && printf '%s' "$secret"; } | hashed)"
    fi
}

stored_facts() { # links and .isl files, keys, and plugins. No content of a file that a database user can replace.
    [ -n "$plugin_dir" ] || plugin_dir=$(option 'plugin[-_]dir')
    for directory in /usr/lib/mysql/plugin /usr/lib64/mysql/plugin /usr/lib/mariadb/plugin /usr/lib64/mariadb/plugin; do
        [ -z "$plugin_dir" ] && [ -d "$directory" ] && plugin_dir=$directory
    done
    [ ! -d "$plugin_dir" ] || put stored.libraries "$(find "$plugin_dir" -maxdepth 1 -name '*.so' -printf '%f\n' | head -n 500)"
    put stored.keys "$(key_facts)"
    pid=$(server_pids)
    server=$(tr '\0' '\n' 2>/dev/null <"/proc/${pid%% *}/cmdline" | grep -m 1 '^/' || command -v mysqld) manifest=${server%/*}/mysqld.my
    # MySQL looks beside the name that started it. An instance's own can be replaced by its account: only such names are printed.
    ! grep -Eqs '"read_local_manifest" *: *true' "$manifest" || manifest=$real/mysqld.my
    put stored.manifest "$(limited 4096 cat -- "$manifest" | grep -o 'component_[a-z_]*')"
    [ -d "$real" ] || return 0
    put stored.links "$({
        timeout 10 find "$real" -mindepth 1 -maxdepth 2 \( -name '.dbops-old-*' -o -name '.dbops-failed-*' \) -prune -o \
            -type l -printf '%Y %P\t%l\n' -o -name '*.isl' -printf 'i %P\t\n' 2>/dev/null
        [ $? -eq 124 ] || echo complete
    } | head -n 200)"
}

account_facts() { # statements
    [ $# -gt 0 ] || return 0
    directory=$(mktemp -d) || return 0
    trap 'rm -rf "$directory"' EXIT
    trap 'exit 1' HUP INT TERM PIPE
    link_installed_plugins "$directory/plugins" || return 0
    sed "s|^plugin-dir=\"plugins\"\$|plugin-dir=\"$directory/plugins\"|" >"$directory/client.cnf"
    client=$(grep -q '^\[mariabackup\]$' "$directory/client.cnf" && command -v mariadb || command -v mysql || command -v mariadb) || client=
    # The backup account is tried as the account of the backup tool, the server's: it may need no password.
    sed '/^\[.*_admin\]/,$d' "$directory/client.cnf" >"$directory/backup.cnf"
    as_tool='' number=0
    pid=$(server_pids)
    if [ "$(id -u)" = 0 ] && uid=$(awk '/^Uid:/ { print $2 }' "/proc/${pid%% *}/status" 2>/dev/null) && [ -n "$uid" ]; then
        as_tool="setpriv --reuid=$uid --regid=$(awk '/^Gid:/ { print $2 }' "/proc/${pid%% *}/status") --clear-groups --no-new-privs"
        chown "$uid" "$directory/backup.cnf" && chmod 711 "$directory"
    fi
    for statement in "$@"; do
        group='' file=backup as=$as_tool answer=/dev/null
        case $statement in admin:*) # of the dashboard's own account
            group=_admin file=client as='' statement=${statement#admin:} answer=$directory/answer ;;
        esac
        if [ -z "$client" ]; then
            error='no mariadb or mysql client program on this host'
        elif [ -z "$socket" ]; then
            error='the socket of the server is unknown'
        elif # shellcheck disable=SC2086  # words
            error=$(timeout 5 $as "$client" "--defaults-file=$directory/$file.cnf" "--defaults-group-suffix=$group" \
            "--socket=$socket" --batch --silent -e "$statement" 2>&1 >"$answer"); then
            error=
            # what SHOW GRANTS says of all schemas; the rest of a line has the hash of a password
            [ -z "$group" ] || put local_privileges "$(sed -n 's/^GRANT \([A-Z_, ]*\) ON \*\.\* TO .*/\1/p' "$answer" | tr '\n' ',')"
        else
            error=${error:-no answer in 5 s}
        fi
        put "statement.$number" "$(printf '%s' "$error" | tail -c 4096)"
        number=$((number + 1))
    done
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

backup_facts() {
    read -r boot </proc/sys/kernel/random/boot_id
    hertz=$(getconf CLK_TCK 2>/dev/null || echo 100)
    servers=0
    for process in /proc/[0-9]*; do
        name=
        { read -r name <"$process/comm"; } 2>/dev/null
        case $name in
        mariadbd | mysqld) servers=$((servers + 1)) ;;
        mysqldump | mariadb-dump | mysqlpump | mydumper | xtrabackup* | mariadb-backup | mariabackup | innobackupex) backup_process ;;
        esac
    done
    put server_count "$servers"
}

backup_tools='mysqldump|mariadb-dump|mysqlpump|mydumper|xtrabackup|mariadb-backup|mariabackup|innobackupex'

named_tool() { # the first backup tool in the text on standard input
    grep -v '^[[:space:]]*#' | grep -owE "$backup_tools" | head -n 1
}

crontab_lines() { # lines that run a backup tool or a script that names one: "TOOL<TAB>LINE"; and time zone settings
    set -f
    while read -r line || [ -n "$line" ]; do
        case $line in
        '' | '#'*) continue ;;
        CRON_TZ*=*) printf '\t%s\n' "$line" && continue ;;
        esac
        tool=$(printf '%s\n' "$line" | named_tool)
        if [ -z "$tool" ]; then
            # shellcheck disable=SC2086  # into words, as cron's shell would; set -f leaves patterns alone
            for word in $line; do
                case $word in /*/dbops-backup-report) continue ;; /*) ;; *) continue ;; esac
                [ -f "$word" ] || continue
                tool=$(head -c 65536 "$word" 2>/dev/null | named_tool)
                [ -z "$tool" ] || break
            done
        fi
        [ -z "$tool" ] || printf '%s\t%s\n' "$tool" "$line"
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

host_facts
tool_facts
config_facts
datadir_facts
[ "$inspect" = 0 ] || stored_facts
backup_facts
[ "$inspect" != 1 ] || schedule_facts
account_facts "$@"
put time.last "$(date +%s.%N)"
