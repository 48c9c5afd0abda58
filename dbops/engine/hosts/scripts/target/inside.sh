#!/bin/bash
# Keep directories and files of the old data directory that the option file names. A database user can write there: so its own
# user packs and unpacks, who can read and write no more than that.
# The packed file stays beside the marker of a copy until the copy was made quiet. While it is there, it has what the target had of
# its own, and the copy may have the source's.

# Run a command as user $1.
as_user() {
    local user=$1
    shift
    [ "$(id -un)" = "$user" ] || set -- setpriv "--reuid=$user" "--regid=$(id -gn -- "$user")" --init-groups "$@"
    "$@"
}

# Whether a directory above $2 in $1 is a link: the link itself is kept.
is_behind_link() {
    local above=$2
    while [ "$above" != "${above%/*}" ]; do
        above=${above%/*}
        [ ! -L "$1/$above" ] || return 0
    done
    return 1
}

is_small_file() { [ -f "$1" ] && [ "$(stat -L -c %s -- "$1")" -le 1048576 ]; }

# Whether nothing is at $1, not even a link: a disk was replaced.
is_gone() { [ ! -e "$1" ] && [ ! -L "$1" ]; }

# Print the packed file in data directory $1 of a copy that was never made quiet.
packed_in() { is_gone "$1" || find "$1" -mindepth 1 -maxdepth 1 -type f -name '.dbops-*.inside' -print -quit; }

# Whether the data in $1 is a copy that was never made quiet.
is_unfinished_copy() {
    local mark
    for mark in "$1"/.dbops-*; do
        case ${mark##*/} in *.*.*) continue ;; esac
        [ ! -f "$mark" ] || [ -e "$mark.quieted" ] || return 0
    done
    return 1
}

# Pack what the lines "KIND PATH" of $3 name from data directory $1 of user $2 into $4: directories without their content,
# and files up to 1 MiB. Directories that the old data lacks are packed empty, as all are if $1 is gone. What an unfinished
# copy has packed is taken over.
pack_inside() {
    local kind path earlier names=() missing=() made=$4.made
    earlier=$(packed_in "$1")
    if [ -n "$earlier" ]; then
        as_user "$2" cat -- "$earlier" >"$4"
        return
    fi
    while read -r kind path; do
        is_behind_link "$1" "$path" && continue
        [ "$path" != mysqld-auto.cnf ] || ! is_unfinished_copy "$1" || continue
        case $kind in
        d) [ ! -f "$1/$path" ] || continue ;;
        f) is_small_file "$1/$path" || continue ;;
        a) [ -d "$1/$path" ] || is_small_file "$1/$path" || continue ;;
        esac
        if [ -e "$1/$path" ] || [ -L "$1/$path" ]; then names+=("./$path"); else missing+=("./$path"); fi
    done <"$3"
    rm -rf -- "$made" "$4"
    mkdir -- "$made" || return 1
    if is_gone "$1" && [ ${#names[@]} -eq 0 ]; then
        tar -c -f "$4" -T /dev/null || return 1
    else
        (cd -- "$1" && as_user "$2" tar -c --no-recursion -f - -T /dev/null -- "${names[@]}") >"$4" || return 1
    fi
    if [ ${#missing[@]} -gt 0 ]; then
        (cd -- "$made" && umask 027 && mkdir -p -- "${missing[@]}") || return 1
        tar -r -f "$4" --no-recursion -C "$made" -- "${missing[@]}" || return 1
    fi
    rm -rf -- "$made"
}

# Unpack $2 into data directory $1 as its owner, in place of what the source persisted. Directories that exist stay as they are.
unpack_inside() {
    [ -f "$2" ] || return 0
    local owner
    owner=$(stat -c %U -- "$1")
    forget_persisted "$1"
    (cd -- "$1" && as_user "$owner" tar -x -p --no-overwrite-dir -f "$2") >&2 || fail "The files in $1 that the option file names could not be restored."
}

# Remove the settings that a server persisted in data directory $1.
forget_persisted() { rm -f -- "$1/mysqld-auto.cnf" || fail "$1/mysqld-auto.cnf could not be removed."; }
