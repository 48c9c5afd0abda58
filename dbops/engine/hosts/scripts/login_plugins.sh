#!/bin/sh
# Login plugins that a client program may load: those that answer a challenge. Others send the password itself.
# Needs exchangeable.sh.

# Fill the new directory $1 with links to the plugins of the directories $2...; the first one with a plugin wins.
link_plugins() (
    into=$1
    shift
    mkdir "$into" && chmod 755 "$into" || return 1
    for directory in "$@"; do
        for plugin in client_ed25519.so parsec.so; do
            file=$(readlink -f -- "$directory/$plugin" 2>/dev/null) || continue
            if [ -f "$file" ] && [ ! -e "$into/$plugin" ] && [ -z "$(exchangeable_at "$file")" ]; then
                ln -s "$file" "$into/$plugin"
            fi
        done
    done
)

# The same with the plugins of the installed clients.
link_installed_plugins() {
    link_plugins "$1" /usr/lib/*/libmariadb3/plugin /usr/lib/*/mariadb*/plugin /usr/lib*/mariadb/plugin /usr/lib*/mysql/plugin
}
