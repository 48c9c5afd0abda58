#!/bin/sh
# Login plugins that a client program may load: those that answer a challenge. Others send the password itself.
# Needs exchangeable.sh.

# Fill the new directory $1 with links to the plugins of the directories $2...; the first one with a plugin wins.
link_plugins() (
    into=$1
    shift
    mkdir -m 755 "$into" || return 1
    for directory in "$@"; do
        for plugin in client_ed25519.so parsec.so mysql_native_password.so; do
            # start programs only for what is there
            if [ ! -f "$directory/$plugin" ] || [ -e "$into/$plugin" ]; then continue; fi
            file=$(readlink -f -- "$directory/$plugin" 2>/dev/null) || continue
            if [ -f "$file" ] && [ -z "$(exchangeable_at "$file")" ]; then
                ln -s "$file" "$into/$plugin"
            fi
        done
    done
)

# Print the plugin directories beside client programs that are installed elsewhere, as from an archive.
plugins_beside_clients() (
    programs=$(for program in mysql mysqldump mariadb mariadb-dump; do command -v "$program"; done)
    IFS='
'
    set -f
    # shellcheck disable=SC2086  # one a line
    [ -z "$programs" ] || programs=$(readlink -f -- $programs)
    for program in $programs; do
        case $program in /usr/bin/*) continue ;; esac
        program=${program%/*}
        printf '%s\n' "${program%/*}/lib/plugin" "${program%/*}/lib/mysql/plugin"
    done
)

# The same with the plugins of the installed clients. MySQL 9 has that of accounts of MySQL 5.7 as a file.
link_installed_plugins() (
    into=$1
    set -- /usr/lib/*/libmariadb3/plugin /usr/lib/*/mariadb*/plugin /usr/lib*/mariadb/plugin /usr/lib*/mysql/plugin
    while read -r directory; do
        set -- "$@" "$directory"
    done <<EOF
$(plugins_beside_clients)
EOF
    link_plugins "$into" "$@"
)
