#!/bin/bash
# Shared functions.

# Print the server processes whose working directory is $1 (a server changes into its data directory).
servers_in() {
    local wanted process name line found=()
    for process in /proc/[0-9]*; do
        name=
        { read -r name <"$process/comm"; } 2>/dev/null # without starting a program for each process
        case $name in mariadbd | mysqld) found+=("$process/cwd") ;; esac
    done
    [ ${#found[@]} -gt 0 ] || return 0
    wanted=$(identity_of "$1")
    [ -n "$wanted" ] || return 0
    # compare device and inode, so that servers in containers are found too; an unreadable process counts as a server here, but an
    # exiting process has no directory any more
    while IFS= read -r line; do
        case $line in
            "$wanted "* | *'Permission denied'*)
                process=${line##*/proc/}
                echo "${process%%/*}"
                ;;
        esac
    done < <(LC_ALL=C stat -L -c '%d:%i %n' -- "${found[@]}" 2>&1)
}

# Print device and inode of a directory, nothing if it is missing.
identity_of() {
    stat -L -c %d:%i -- "$1" 2>/dev/null || true
}

# Print the mount point of the file system that contains, or would contain, $1.
mount_of() {
    local at
    at=$(readlink -m -- "$1")
    until [ -e "$at" ]; do
        at=${at%/*}
        at=${at:-/}
    done
    df --output=target -- "$at" | tail -n 1
}

# Whether $1 is the record of a published backup of run $2 with checksum $3.
is_record_of() {
    grep -Eqs "^ *\"run\": \"$2\",?\$" -- "$1" && grep -Eqs "^ *\"sha256\": \"$3\",?\$" -- "$1"
}

# Whether $1 is a published backup of $2 bytes, by the record beside it of run $3 with checksum $4.
is_backup_of() {
    [ -f "$1" ] && [ "$(stat -c %s -- "$1")" = "$2" ] && is_record_of "$1.json" "$3" "$4"
}

# The marker file of a rebuild in the directory that it created: the inode is not enough for mount points and reused inode
# numbers. $1 data directory  $2 run id
mark_of() { echo "$1/.dbops-$2"; }

# After the stream, the marker contains the inode of the system tablespace, so that data put into the same directory by
# others is not taken for this rebuild's. $1 data directory  $2 its marker
is_of_mark() {
    [ -f "$2" ] || return 1
    [ ! -s "$2" ] || [ "$(cat -- "$2")" = "$(stat -c %i -- "$1/ibdata1" 2>/dev/null)" ]
}

# Refuse unless $1 is the directory ($2 device:inode) that rebuild $3 created for its copy.
must_be_new_copy() {
    [ "$(identity_of "$1")" = "$2" ] || refuse "$1 is not the directory that this rebuild created."
    is_of_mark "$1" "$(mark_of "$1" "$3")" || refuse "$1 does not contain the marker of this rebuild."
}

# Print one checksum of inode, type, mode, owner, size and times of all files in $1; nothing if not all are readable. The
# change time cannot be set, and writing, moving, removing or chown changes it. Excludes directories moved aside, the times
# of $1 itself (moving aside changes them) and lost+found of a mount point.
tree_of() {
    local tree
    tree=$(
        set -o pipefail
        cd -- "$1" && find . -xdev \( -path './.dbops-old-*' -o -path './.dbops-failed-*' -o -path ./lost+found \) -prune \
            -o -path . -printf '%D:%i %y %m %U:%G\0' \
            -o -printf '%D:%i %y %m %U:%G %s %T@ %C@ %P\0' | LC_ALL=C sort -z | sha256sum
    ) 2>/dev/null || return 0
    echo "${tree%% *}"
}

# Refuse on a machine other than the plan's: a cloned machine has the same host key, directories and inodes.
# $1 name and machine id, empty if unknown
must_be_machine() {
    local here
    here="$(hostname 2>/dev/null || cat /proc/sys/kernel/hostname) $(cat /etc/machine-id 2>/dev/null)"
    [ -z "$1" ] || [ "${here% }" = "$1" ] || refuse "This machine is $here, but the plan is for $1."
}

# Set as_owner to the words before a command that run it as account $1: without privileges, and without a way to get them (a
# program that runs as its file's owner does not). Root runs no tool on data that a database account can write, and opens no file there.
become() {
    local account
    as_owner=()
    case $1 in
        *:*)
            [ "$1" != "$EUID:$(id -g)" ] || return 0
            account=("--reuid=${1%:*}" "--regid=${1#*:}" --clear-groups)
            ;;
        *)
            [ "$1" != "$(id -un)" ] || return 0
            account=("--reuid=$1" "--regid=$(id -gn -- "$1")" --init-groups) || fail "The user $1 does not exist."
            ;;
    esac
    as_owner=(setpriv "${account[@]}" --no-new-privs --)
}

# Print the account of the server that runs on data directory $1, for become: its name, or numbers if it has none here, as in a
# container. It is read from the process: the owner of the directory can exchange the path for a directory of root's.
account_of_server() {
    local pid uid gid
    pid=$(servers_in "$1" | head -n 1)
    [ -n "$pid" ] || fail "No server runs on $1."
    uid=$(sed -n 's/^Uid:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status")
    gid=$(sed -n 's/^Gid:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status")
    [ -n "$uid$gid" ] || fail "The server on $1 has just ended."
    id -un -- "$uid" 2>/dev/null || echo "$uid:$gid"
}

# What makes a client obey nothing but SQL. --binary-mode: no command of the client but "delimiter" and "charset" (seen with 10.11,
# 11.8 and 9.7). local-infile: a server can ask for a file. The others where they exist.
# shellcheck disable=SC2034  # for other scripts
only_sql=(--binary-mode --local-infile=0 --loose-sandbox --loose-system-command=OFF)

# Storage engines whose rows are not in files of the server, as a list of SQL. Physical backups and copies of schemas lack them.
# shellcheck disable=SC2034  # for other scripts
engines_elsewhere="'CONNECT', 'FEDERATED', 'NDBCLUSTER', 'OQGRAPH', 'PERFORMANCE_SCHEMA', 'S3', 'SPHINX', 'SPIDER'"

# Run a command as the account of become, in /: it cannot enter the directories of root in which our scripts work.
as_owner() { (exec_as_owner "$@"); }
exec_as_owner() { cd / && exec ${as_owner[@]+"${as_owner[@]}"} "$@"; }

# Whether the working directory and all above it can be changed by root alone: then no other account exchanges names on this path.
# Others can write in a sticky directory above, which protects the directories of root in it.
is_roots_path() {
    local at=. path unless=(-true)
    path=$(pwd -P)
    while [ -z "$(find "$at" -maxdepth 0 \( ! -uid 0 -o "${unless[@]}" \( -perm -002 -o -perm -020 \) \) -print)" ]; do
        [ "$path" != / ] || return 0
        path=${path%/*} path=${path:-/} at=$at/.. unless=(! -perm -1000)
    done
    return 1
}

# Enter the directory of name $1, and set as_names to the words before a command that changes names in it. The owner of the data
# changes them if it can write there. Otherwise root does, if no other account can exchange them on the way. The caller uses names
# relative to the directory that it has entered: a path could lead elsewhere by then.
enter_directory_of() {
    cd -P -- "$(dirname -- "$1")" || return 1
    as_names=(${as_owner[@]+"${as_owner[@]}"})
    [ ${#as_owner[@]} -gt 0 ] || return 0
    "${as_owner[@]}" test -w . && return 0
    as_names=()
    is_roots_path
}

# Change names in the entered directory.
as_names() { ${as_names[@]+"${as_names[@]}"} "$@"; }

must_enter_directory_of() {
    enter_directory_of "$1" || refuse "Accounts other than root and the server's can exchange $1. Give the directories above it to root."
}

# Move directory $1 (with device:inode $2) to the unused name $3 beside it. As a subshell: it changes the working directory.
move_beside() (
    must_enter_directory_of "$1"
    from=./${1##*/} to=./${3##*/}
    { [ -d "$from" ] && [ ! -L "$from" ] && [ "$(identity_of "$from")" = "$2" ]; } || fail "$1 is no longer the directory to move."
    { [ ! -e "$to" ] && [ ! -L "$to" ]; } || fail "$3 already exists."
    as_names mv -T -n -- "$from" "$to" || fail "$1 could not be moved to $3."
    [ "$(identity_of "$to")" = "$2" ] || fail "$1 could not be moved to $3."
)

# Print the topmost missing directory of path $1, or $1 if nothing above it is missing.
existing_above() {
    local path=$1
    # above / itself there is nothing more
    while [ -n "${path%/*}" ] && [ "${path%/*}" != "$path" ] && [ ! -d "${path%/*}" ]; do path=${path%/*}; done
    echo "$path"
}

# Create empty data directory $1 of owner $2 with mode $3, and what is missing above it.
make_data_directory() {
    local missing
    while missing=$(existing_above "$1") && [ "$missing" != "$1" ]; do
        (must_enter_directory_of "$missing" && as_names mkdir -m 0755 -- "./${missing##*/}") || return 1
    done
    (
        must_enter_directory_of "$1"
        new=./${1##*/}
        as_names mkdir -m 0700 -- "$new" || exit 1
        # the owner's files get the label of their directory
        if [ ${#as_names[@]} -eq 0 ] && command -v selinuxenabled >/dev/null && selinuxenabled; then restorecon -- "$1" || exit 1; fi
        # made by the owner itself where it can write: root gives nothing away by a name that others can exchange
        if [ ${#as_names[@]} -eq 0 ] && [ ${#as_owner[@]} -gt 0 ]; then chown -h -- "$2:$(id -gn -- "$2")" "$new" || exit 1; fi
        cd -P -- "$new" && ${as_owner[@]+"${as_owner[@]}"} chmod -- "$3" .
    )
}

# Run a command as the owner in data directory $1 if that is still $2 (device:inode).
in_data() (
    cd -P -- "$1" || fail "$1 is missing."
    [ "$(identity_of .)" = "$2" ] || fail "$1 is no longer the data directory."
    shift 2
    exec ${as_owner[@]+"${as_owner[@]}"} "$@"
)

# Write the inode of the copy's system tablespace to the marker of run $2 in data directory $1: it identifies the data from here on.
identify_copy() {
    # shellcheck disable=SC2016  # for the inner shell
    as_owner sh -c 'cd -P -- "$1" && { stat -c %i -- ./ibdata1 2>/dev/null || :; } >"$2"' dbops "$1" "$(mark_of "$1" "$2")" ||
        fail "The marker in $1 cannot be written."
}

# Print the regular files $2... of data directory $1 that exist, one line "NAME BASE64" each, as far as the owner can read them.
print_files() {
    local directory=$1 name
    shift
    for name; do
        # shellcheck disable=SC2016  # for the inner shell
        as_owner sh -c 'cd -P -- "$1" && [ -f "$2" ] && [ ! -L "$2" ] && printf "%s %s\n" "$2" "$(head -c 262144 -- "$2" | base64 -w0)"' dbops "$directory" "$name"
    done
    return 0
}

no_server_on() {
    local pids
    pids=$(servers_in "$1")
    [ -z "$pids" ] || refuse "A server runs on $1 (process $(echo "$pids" | tr '\n' ' '))."
}

refuse() {
    echo "REFUSED: $*"
    exit 65
}

fail() {
    echo "FAILED: $*"
    exit 70
}
