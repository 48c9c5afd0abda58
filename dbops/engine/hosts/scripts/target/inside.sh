#!/bin/bash
# Keep directories and files of the old data directory that the option file names. A database user can write there: so its own
# user packs and unpacks, who can read and write no more than that.

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

# Pack what the lines "KIND PATH" of $3 name from data directory $1 of user $2 into $4: directories without their content,
# and files up to 1 MiB. Directories that the old data lacks are packed empty.
pack_inside() {
    local kind path names=() missing=() made=$4.made
    while read -r kind path; do
        is_behind_link "$1" "$path" && continue
        case $kind in
        d) [ ! -f "$1/$path" ] || continue ;;
        f) is_small_file "$1/$path" || continue ;;
        a) [ -d "$1/$path" ] || is_small_file "$1/$path" || continue ;;
        esac
        if [ -e "$1/$path" ] || [ -L "$1/$path" ]; then names+=("./$path"); else missing+=("./$path"); fi
    done <"$3"
    rm -rf -- "$made" "$4"
    mkdir -- "$made" || return 1
    if [ ${#names[@]} -gt 0 ]; then
        (cd -- "$1" && as_user "$2" tar -c --no-recursion -f - -- "${names[@]}") >"$4" || return 1
    fi
    if [ ${#missing[@]} -gt 0 ]; then
        (cd -- "$made" && umask 027 && mkdir -p -- "${missing[@]}") || return 1
        tar -r -f "$4" --no-recursion -C "$made" -- "${missing[@]}" || return 1
    fi
    rm -rf -- "$made"
}

# Unpack $2 into data directory $1 as its owner, and remove it. Directories that exist stay as they are.
unpack_inside() {
    [ -f "$2" ] || return 0
    local owner
    owner=$(stat -c %U -- "$1")
    (cd -- "$1" && as_user "$owner" tar -x -p --no-overwrite-dir -f "$2") >&2 || fail "The files in $1 that the option file names could not be restored."
    rm -f -- "$2"
}
