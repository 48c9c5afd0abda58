#!/bin/bash
# Functions for a program that reads a server's data or dumps it: it runs as the account of that server. Root would follow the
# links that this account can put into its data, and send what they lead to. Needs common.sh.
#
# Only root can enter the working directory. The program gets three descriptors: 97 is the directory of login plugins, 98 its
# option file, and 99 the directory "tool", which belongs to its account.

# Make the directory for account $1. What the program writes is in a directory of name $2, the run's.
make_tool_directory() {
    rm -rf -- tool
    mkdir -- tool "tool/$2" "tool/$2/target" "tool/$2/lsn" || return 1
    sed 's|^plugin-dir="..*"$|plugin-dir=/proc/self/fd/97|' backup.cnf >tool.cnf || return 1
    [ "$(id -un)" = "$1" ] || chown -h -- "$1" "tool/$2/target" "tool/$2/lsn" "tool/$2" tool tool.cnf
}

# Set tool_words to the words that run a program as account $1, without the environment of a login, which can name other servers.
# $2 the run's name  then the program's words, in which paths of the working directory are replaced by the descriptors.
set_tool_words() {
    local name=$2 word place
    become "$1"
    shift 2
    # root may open more files than the account
    # shellcheck disable=SC2016  # for the inner shell
    tool_words=(bash -c 'ulimit -n "$(cat /proc/sys/fs/nr_open)" 2>/dev/null
        exec 96>&-; [ ! -d "$2" ] || exec 97<"$2"; exec 98<"$1/tool.cnf" 99<"$1/tool"; shift 2; cd / && exec "$@"'
        dbops "$PWD" "${DBOPS_RUN_DIR:-$PWD}/plugins" env -i PATH="$PATH" HOME=/ LC_ALL=C MYSQL_TEST_LOGIN_FILE=/dev/null/none
        ${as_owner[@]+"${as_owner[@]}"})
    for word; do
        for place in "$PWD" "${DBOPS_JOB_DIR:-$PWD}" "${DBOPS_RUN_DIR:-$PWD}"; do # the work directory can be behind a link
            case $word in
                *="$place/backup.cnf") word=${word%%=*}=/proc/self/fd/98 ;;
                *="$place/target" | *="$place/lsn") word=${word%%=*}=/proc/self/fd/99/$name/${word##*/} ;;
            esac
        done
        tool_words+=("$word")
    done
}

# Print the files "$@" that the program wrote beside its stream, one line "NAME BASE64" each, as its account.
print_tool_files() {
    local as_owner name
    become "$(stat -c %u:%g -- tool)"
    # shellcheck disable=SC2016  # for the inner shell
    (cd -P -- tool && exec ${as_owner[@]+"${as_owner[@]}"} sh -c 'cd -P -- ./*/lsn && for name; do
        [ ! -f "$name" ] || [ -L "$name" ] || printf "%s %s\n" "$name" "$(head -c 262144 -- "$name" | base64 -w0)"
    done' dbops "$@")
}
