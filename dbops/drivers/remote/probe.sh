#!/bin/sh
# Print facts of a host and one data directory as records "KEY<TAB>VALUE<NUL>". Changes nothing.
#
#   probe.sh DATADIR DEFAULTS_FILE INSPECT SOCKET KNOWN PLUGIN_DIR GROUP_SUFFIX [STATEMENT...]
#
# KNOWN: lines "PATH IDENTITY" of programs with known versions, which are not started again. INSPECT 2 adds links, keys and
# plugins; 1 also sizes, which read the whole directory tree, what programs say about the storage, and crontab lines and timers that
# run a backup. Standard input: an option file for the backup account, which then runs each STATEMENT over the local socket, to test
# its rights.
# shellcheck disable=SC2154  # features, free, size, type, storage, newline: of the files before
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

put_flag() { # KEY TEST...
    flag=$1
    shift
    if "$@"; then put "$flag" 1; else put "$flag" ''; fi
}

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
        identify "$process" || break
        process=$parent
    done
    printf '%s' "$found"
}

host_facts() {
    put time.first "$(date +%s.%N)"
    name='' machine=''
    { read -r name </proc/sys/kernel/hostname; } 2>/dev/null
    put hostname "${name:-$(hostname)}"
    { read -r machine </etc/machine-id; } 2>/dev/null
    put machine_id "$machine"
    put ssh_connection "${SSH_CONNECTION:-$(ssh_connection)}"
    put cpu_count "$(nproc)"
    available=''
    while read -r label value _; do
        if [ "$label" = MemAvailable: ]; then available=$value && break; fi
    done </proc/meminfo
    put memory_available_kib "$available"
    read_features
    case "$features " in *' aes '*) put has_aes 1 ;; *) put has_aes '' ;; esac
    # shellcheck disable=SC3045  # every sh that runs on these hosts has -H
    put open_files_limit "$(ulimit -Hn)"
    put_flag has_systemd [ -d /run/systemd/system ]
}

# Each program's path, its file identity if the version is needed, and its version output. ssh also says its ciphers then.
tool_facts() {
    set -f
    IFS=$newline
    # shellcheck disable=SC2046  # one a line
    set -- $(
        for name in mariadb-backup mariabackup xtrabackup xbstream mbstream mariadbd mysqld mariadb mysql \
            mariadb-dump mysqldump \
            ssh ssh-keygen flock setsid setpriv bash systemctl zstd \
            gzip python3 mariadb-install-db mysql_install_db sysbench; do
            command -v "$name"
        done
    )
    set +f
    unset IFS
    files="
$(stat -L -c '%n %d:%i:%s:%Z' -- "$@" 2>/dev/null)
"
    for path in "$@"; do
        found='' said=''
        case ${path##*/} in
        mbstream | ssh-keygen | flock | setsid | setpriv | bash | systemctl | zstd | gzip | python3 | sysbench | *-install-db | *_install_db) ;;
        *)
            find_identity "$known"
            before=$found
            find_identity "$files"
            if [ -z "$found" ] || [ "$found" != "$before" ]; then
                said=$(version)
                [ "${path##*/}" != ssh ] || put ssh_ciphers "$(limited 8192 ssh -Q cipher | grep -v ' ')"
            fi
            case $said in *"$no_answer"*) patience=1 ;; esac # all must fit into one probe
            ;;
        esac
        put "tool.${path##*/}" "$path
$found
$said"
    done
}

find_identity() { # sets found to that of "path" in these lines, without starting a program
    found=${1#*"
$path "}
    if [ "$found" = "$1" ]; then found=''; else found=${found%%"
"*}; fi
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
    if [ -z "$socket" ]; then find_option socket && socket=$value; fi
}

# Set value to the last one of an option, given as a pattern with [-_].
find_option() {
    value=''
    set -f
    IFS=$newline
    for line in $options; do
        # shellcheck disable=SC2254  # a pattern
        case $line in --$1=* | --loose[-_]$1=*) value=${line#*=} ;; esac
    done
    set +f
    unset IFS
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

read_processes() { # in one pass: sets servers and backups, lists of directories in /proc
    servers='' backups='' server_count=0
    for process in /proc/[0-9]*; do
        name=
        { read -r name <"$process/comm"; } 2>/dev/null
        case $name in
        mariadbd | mysqld) servers="$servers $process/cwd" server_count=$((server_count + 1)) ;;
        *) ! is_backup_tool "$name" || backups="$backups $process" ;;
        esac
    done
}

find_servers() { # a server changes into its data directory: sets pids, and server_uid and server_gid of the first
    pids='' server_uid='' server_gid=''
    [ -n "$servers" ] || return 0
    pattern=$real
    case $real in *[][*?\\]*) pattern=$(printf '%s' "$real" | sed 's/[][*?\\]/\\&/g') ;; esac
    # shellcheck disable=SC2044,SC2086  # our own names, one program for all
    for found in $(find $servers -maxdepth 0 -lname "$pattern" -printf '%h\n' 2>/dev/null); do
        pids="$pids${found#/proc/} "
        if [ -z "$server_uid" ]; then read_ids "$found" && server_uid=$uid server_gid=$gid; fi
    done
}

read_ids() { # of a process's directory: sets uid and gid, and effective to the effective uid
    uid='' gid='' effective=''
    while read -r label value other _; do
        case $label in
        Uid:) uid=$value effective=$other ;;
        Gid:) gid=$value && return ;;
        esac
    done 2>/dev/null <"$1/status"
}

# The lowest directory above the data in which an account other than root and the data's owner can exchange names (common.sh).
exchangeable() {
    at=${real%/*} at=${at:-/}
    [ -d "$at" ] || at=$nearest
    read_ids /proc/self
    [ "$effective" = 0 ] || return 0
    [ "${account:=root}" = root ] || ! setpriv "--reuid=$account" "--regid=$(id -gn -- "$account")" --init-groups test -w "$at" 2>/dev/null || return 0
    exchangeable_at "$at"
}

datadir_facts() {
    real=$(readlink -m -- "$datadir")
    put datadir.path "$real"
    nearest=$real
    until [ -d "$nearest" ]; do nearest=${nearest%/*} && nearest=${nearest:-/}; done
    find_space "$nearest"
    put datadir.filesystem "$type"
    put datadir.free_bytes "$free"
    put datadir.disk_bytes "$size"
    # one a line; the last one can have line breaks itself
    rest=$(stat -c "%d:%i$newline%U$newline%G$newline%m" -- "$nearest" 2>/dev/null) || rest=0:$newline$newline$newline
    identity=${rest%%"$newline"*} rest=${rest#*"$newline"}
    account=${rest%%"$newline"*} rest=${rest#*"$newline"}
    group=${rest%%"$newline"*} mount=${rest#*"$newline"}
    find_storage "${identity%%:*}"
    describe_storage "$nearest"
    put datadir.storage "$storage"
    put_layers
    [ "$inspect" != 1 ] || put datadir.answers "$(answers)"
    [ -d "$real" ] || account=root
    put datadir.exchangeable "$(exchangeable)"
    find_servers
    [ -d "$real" ] || return 0
    put datadir.identity "$identity"
    put datadir.owner "$account:$group"
    for file in ibdata1 mysql; do # created once with the data; new data has a new file
        born=$(stat -c '%i %W' -- "$real/$file" 2>/dev/null) || continue
        put datadir.files "$file $born"
        break
    done
    if content=$(find "$real" -mindepth 1 -maxdepth 1 -print -quit 2>/dev/null); then put_flag datadir.is_empty [ -z "$content" ]; fi
    put_flag datadir.is_mount_point [ "$mount" = "$real" ]
    put datadir.server_pids "$pids"
    [ "$inspect" != 1 ] || put datadir.sizes "$(sizes)"
    [ "$inspect" != 1 ] || put datadir.kept "$(kept_size)"
}

in_datadir() { # a path as the server, which runs in its data directory, reads it
    case $1 in /*) printf '%s' "$1" ;; *) printf '%s' "$real/$1" ;; esac
}

hashed() { sha256sum | cut -d' ' -f1; }

plain_keys() { # lines "ID;KEY" of standard input, each in one way of writing
    sed 's/#.*//' | tr -d ' \t\r' | tr A-F a-f | grep . | sort
}

key_facts() { # one hash of ids and keys in the key file of file_key_management. Prints no key.
    find_option 'file[-_]key[-_]management[-_]filename'
    [ -n "$value" ] || return 0
    file=$(in_datadir "$value")
    if [ ! -f "$file" ] || [ ! -r "$file" ]; then printf unreadable && return; fi
    if [ "$(head -c 8 -- "$file" | tr -d '\0')" != Salted__ ]; then
        head -c 1048576 -- "$file" | plain_keys | hashed
        return
    fi
    find_option 'file[-_]key[-_]management[-_]filekey'
    secret=$value
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
    if [ -z "$plugin_dir" ]; then find_option 'plugin[-_]dir' && plugin_dir=$value; fi
    for directory in /usr/lib/mysql/plugin /usr/lib64/mysql/plugin /usr/lib/mariadb/plugin /usr/lib64/mariadb/plugin; do
        [ -z "$plugin_dir" ] && [ -d "$directory" ] && plugin_dir=$directory
    done
    [ ! -d "$plugin_dir" ] || put stored.libraries "$(find "$plugin_dir" -maxdepth 1 -name '*.so' -printf '%f\n' | head -n 500)"
    put stored.keys "$(key_facts)"
    server=$(tr '\0' '\n' 2>/dev/null <"/proc/${pids%% *}/cmdline" | grep -m 1 '^/' || command -v mysqld) manifest=${server%/*}/mysqld.my
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
    # The backup account is tried as the account of the backup tool, the server's: it may need no password.
    is_of_backup=1 is_mariadb=''
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in
        'plugin-dir="plugins"') line="plugin-dir=\"$directory/plugins\"" ;;
        '[mariabackup]') is_mariadb=1 ;;
        '['*_admin']'*) is_of_backup='' ;;
        esac
        printf '%s\n' "$line"
        [ -z "$is_of_backup" ] || printf '%s\n' "$line" >&3
    done >"$directory/client.cnf" 3>"$directory/backup.cnf"
    if [ -n "$is_mariadb" ]; then client=$(command -v mariadb || command -v mysql); else client=$(command -v mysql || command -v mariadb); fi || client=
    as_tool='' number=0
    read_ids /proc/self
    if [ "$effective" = 0 ] && [ -n "$server_uid" ]; then
        as_tool="setpriv --reuid=$server_uid --regid=$server_gid --clear-groups --no-new-privs"
        chown "$server_uid" "$directory/backup.cnf" && chmod 711 "$directory"
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
        [ ${#error} -le 4096 ] || error=$(printf '%s' "$error" | tail -c 4096)
        put "statement.$number" "$error"
        number=$((number + 1))
    done
}

host_facts
tool_facts
config_facts
read_processes
datadir_facts
[ "$inspect" = 0 ] || stored_facts
backup_facts
[ "$inspect" != 1 ] || schedule_facts
account_facts "$@"
put time.last "$(date +%s.%N)"
