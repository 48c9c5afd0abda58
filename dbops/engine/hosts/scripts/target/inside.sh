#!/bin/bash
# Keep directories and files of the old data directory that the option file names. A database user can write there: so its own
# user packs and unpacks, who can read and write no more than that.
# The packed file stays beside the marker of a copy until the copy was made quiet. Until it is unpacked (.unpacked beside the marker)
# it has what the target had of its own, and the copy may have the source's; from then on the copy has it.

# Run a command as user $1 in the working directory.
as_user() {
    local as_owner
    become "$1"
    shift
    ${as_owner[@]+"${as_owner[@]}"} "$@"
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

# Whether a server has run on the data in $1, started by a person if nothing was unpacked: MySQL and MariaDB make these files then,
# and no copy has them.
has_run() { [ -e "$1/auto.cnf" ] || [ -e "$1/multi-master.info" ]; }

# Print the packed file in data directory $1 of a copy that has nothing of it yet, and on which no server has run since.
packed_in() {
    local packed
    is_gone "$1" || has_run "$1" && return
    packed=$(find "$1" -mindepth 1 -maxdepth 1 -type f -name '.dbops-*.inside' -print -quit)
    [ -e "${packed%.inside}.quieted" ] || [ -e "${packed%.inside}.unpacked" ] || echo "$packed"
}

# Whether the data in $1 is a copy that was never made quiet and may have the source's files.
is_unfinished_copy() {
    local mark
    for mark in "$1"/.dbops-*; do
        case ${mark##*/} in *.*.*) continue ;; esac
        [ ! -f "$mark" ] || [ -e "$mark.quieted" ] || [ -e "$mark.unpacked" ] || return 0
    done
    return 1
}

# Add empty directories, "./PATH" each, to the packed file $1.
pack_empty() {
    local packed=$1 made=$1.made
    shift
    [ $# -gt 0 ] || return 0
    rm -rf -- "$made"
    mkdir -- "$made" || return 1
    (cd -- "$made" && umask 027 && mkdir -p -- "$@") || return 1
    tar -r -f "$packed" --no-recursion -C "$made" -- "$@" || return 1
    rm -rf -- "$made"
}

# Take over the packed file $1 of an earlier copy into $4, read as user $2, at most 64 MiB, and add directories of $3 that it lacks.
take_over() {
    local kind path above names missing=()
    as_user "$2" head -c 67108865 -- "$1" >"$4" || return 1
    [ "$(stat -c %s -- "$4")" -le 67108864 ] || return 1
    names=$(as_user "$2" tar -t -f - <"$4") || return 1
    while read -r kind path; do
        [ "$kind" = d ] || continue
        above=$path
        # a directory's name ends with a slash: one without is a file or a link
        until grep -qxF -e "$above" -e "./$above" <<<"$names" || [ "$above" = "${above%/*}" ]; do above=${above%/*}; done
        grep -qxF -e "$above" -e "./$above" -e "$path/" -e "./$path/" <<<"$names" || missing+=("./$path")
    done <"$3"
    pack_empty "$4" "${missing[@]}"
}

# Pack what the lines "KIND PATH" of $3 name from data directory $1 of user $2 into $4: directories without their content,
# and files up to 1 MiB. Directories that the old data lacks are packed empty, as all are if $1 is gone. What an unfinished
# copy has packed is taken over.
pack_inside() {
    local kind path earlier names=() missing=()
    earlier=$(packed_in "$1")
    if [ -n "$earlier" ]; then
        take_over "$earlier" "$2" "$3" "$4"
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
    rm -f -- "$4"
    if is_gone "$1" && [ ${#names[@]} -eq 0 ]; then
        tar -c -f "$4" -T /dev/null || return 1
    else
        (cd -- "$1" && as_user "$2" tar -c --no-recursion -f - -T /dev/null -- "${names[@]}") >"$4" || return 1
    fi
    pack_empty "$4" "${missing[@]}"
}

# Unpack $2 into data directory $1 as "owner", in place of what the source persisted. Directories that exist stay as they are.
# shellcheck disable=SC2154  # the caller's
unpack_inside() {
    [ -f "$2" ] || return 0
    forget_persisted "$1"
    (cd -- "$1" && as_user "$owner" tar -x -p --no-overwrite-dir -f "$2") >&2 || fail "The files in $1 that the option file names could not be restored."
    as_user "$owner" touch -- "${2%.inside}.unpacked" || fail "$1 cannot be written."
}

# Remove the settings that a server persisted in data directory $1.
forget_persisted() { as_user "$owner" rm -f -- "$1/mysqld-auto.cnf" || fail "$1/mysqld-auto.cnf could not be removed."; }
