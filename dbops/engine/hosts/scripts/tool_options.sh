#!/bin/bash
# Functions for the option file of a backup tool.

# Print the group suffix of the server on data directory $1; nothing if none runs or it has none.
group_suffix_of() {
    local pid word suffix=
    for pid in $(servers_in "$1"); do
        while IFS= read -r -d '' word; do
            case $word in MYSQL_GROUP_SUFFIX=*) suffix=${word#*=} ;; esac
        done 2>/dev/null <"/proc/$pid/environ"
        while IFS= read -r -d '' word; do
            case $word in --defaults-group-suffix=*) suffix=${word#*=} ;; esac
        done 2>/dev/null <"/proc/$pid/cmdline"
    done
    printf '%s' "$suffix"
}

# Print the options of server option file $1 with group suffix $2 for the server on data directory $3 in the groups $4...,
# one a line. Without the clients' program, ask the running server's own: it prints all in one line.
server_options() {
    local file=$1 suffix=$2 datadir=$3 program said
    shift 3
    set -- "--defaults-file=$file" ${suffix:+"--defaults-group-suffix=$suffix"} "$@"
    # in an empty environment: MYSQL_GROUP_SUFFIX would add groups
    if program=$(command -v my_print_defaults); then
        env -i PATH="$PATH" LC_ALL=C "$program" "$@"
        return
    fi
    program=$(readlink -f "/proc/$(servers_in "$datadir" | head -n 1)/exe") || return 1
    # a database user can start a program of the server's name here; root starts only what root installed
    [ "$(stat -c %u -- "$program")" = 0 ] || return 1
    said=$(env -i PATH="$PATH" LC_ALL=C "$program" "$1" ${suffix:+"$2"} --print-defaults) || return 1
    printf '%s\n' "${said// --/$'\n'--}"
}

# Append to option file $1 what a backup tool needs of the options of the server on data directory $2: of the groups $4 in its
# option file $3, the names $5, which may end with *. Fails if that file exists and cannot be read.
add_tool_options() {
    local own=$1 datadir=$2 file=$3 line name value found groups names options
    read -r -a groups <<<"$4"
    read -r -a names <<<"$5"
    [ -n "$file" ] && [ -e "$file" ] || return 0
    options=$(server_options "$file" "$(group_suffix_of "$datadir")" "$datadir" "${groups[@]}" 2>&1) || {
        echo "FAILED: The server's option file $file cannot be read: $options"
        return 1
    }
    echo '[mysqld]' >>"$own"
    while IFS= read -r line; do
        case $line in --?*) line=${line#--} ;; *) continue ;; esac
        name=${line%%=*}
        value=${line#"$name"}
        name=${name,,}
        name=${name//-/_}
        name=${name#loose_}
        for found in "${names[@]}"; do
            # shellcheck disable=SC2053  # a name may end with *
            [[ $name == $found ]] || continue
            if [ -n "$value" ]; then
                value=${value#=}
                value=${value//\\/\\\\}
                printf '%s="%s"\n' "$name" "${value//\"/\\\"}" >>"$own"
            else
                echo "$name" >>"$own"
            fi
            break
        done
    done <<<"$options"
}
