#!/bin/bash
# The options that come with a copy (backup-my.cnf). A backup tool obeys them when it prepares, and the account of the source's server
# can write them: a library to load, directories, logs. What describes the files of the copy is kept, if its value is of the expected
# form. How to decrypt them is taken from this host's own option file.

# Print the lines of standard input that describe the files of a copy, and nothing else.
# The names are those that the tools write: mariadb-backup 10.3 to 11.8, XtraBackup 2.4 to 8.4 (write_backup_config_file).
describing_lines() {
    local line name value
    while IFS= read -r line || [ -n "$line" ]; do
        line=${line%$'\r'}
        name=${line%%=*} value=${line#*=}
        name=${name// /} value=${value# }
        name=${name//-/_}
        case $name in
            innodb_page_size | innodb_log_file_size | innodb_log_files_in_group | innodb_log_block_size | innodb_undo_tablespaces | \
                server_id | redo_log_version | master_key_id) [[ $value =~ ^[0-9]{1,20}$ ]] ;;
            innodb_checksum_algorithm | innodb_log_checksum_algorithm | innodb_log_checksums | innodb_fast_checksum | \
                innodb_undo_log_encrypt | innodb_redo_log_encrypt | server_uuid) [[ $value =~ ^[A-Za-z0-9_-]{1,40}$ ]] ;;
            innodb_data_file_path) [[ $value =~ ^[A-Za-z0-9_.:\;-]{1,512}$ ]] ;;
            innodb_buffer_pool_filename) [[ $value =~ ^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$ ]] ;;
            innodb_undo_directory) [[ $value =~ ^\./?$ ]] ;;
            *) false ;;
        esac && printf '%s=%s\n' "$name" "$value"
    done
    return 0
}

# Print the libraries that the lines of standard input load, one a line, without ".so".
loaded_libraries() {
    sed -n 's/^ *\(early[-_]\)\?plugin[-_]load\([-_]add\)\? *= *//p' | tr -d '"' | tr ';' '\n' | sed 's/.*=//; s/\.so$//; s/ //g' | grep . || true
}

# Print the directory in which root has installed library $1. The tool has none of its own.
installed_plugins() {
    local directory
    for directory in /usr/lib/mysql/plugin /usr/lib64/mysql/plugin /usr/lib/*/mariadb*/plugin /usr/lib64/mariadb*/plugin; do
        if [ "$(stat -L -c %u -- "$directory/$1" 2>/dev/null)" = 0 ]; then echo "$directory" && return; fi
    done
}

# Print what the tool gets, from the copied options on standard input. Fails if the copy needs a library that this host does not load.
# $1 this host's own options for decryption, one "name=value" a line
tool_gets() {
    local copied library loads
    copied=$(head -c 65536 | tr -d '\000')
    while IFS= read -r library; do
        loaded_libraries <<<"$1" | grep -qxF -e "$library" ||
            fail "The copy needs the library $library to decrypt it. Load it in the option file of this host's server."
    done < <(loaded_libraries <<<"$copied")
    echo '[mysqld]'
    describing_lines <<<"$copied"
    # without one in the copy, nothing in it is encrypted
    loads=$(loaded_libraries <<<"$copied" | sed 's/$/.so/' | paste -s -d ';')
    [ -n "$loads" ] || return 0
    echo "plugin_load=$loads"
    grep -q '^plugin[-_]dir=' <<<"$1" || echo "plugin_dir=$(installed_plugins "${loads%%;*}")"
    grep -Ev '^(early[-_])?plugin[-_]load' <<<"$1" | sed 's/[\\"]/\\&/g; s/=\(.*\)$/="\1"/'
    return 0
}

# Put the checked options in the place of those that came with the copy in data directory $1, once. Needs become.
# $2 this host's server option file, empty if none  $3 its group suffix  $4 its groups
check_copied_options() {
    local own='' groups checked
    read -r -a groups <<<"$4"
    # shellcheck disable=SC2016  # for the inner shell
    as_owner sh -c '[ -f "$1/backup-my.cnf" ] && [ ! -L "$1/backup-my.cnf" ]' dbops "$1" || return 0
    if [ -n "$2" ] && [ -e "$2" ]; then
        own=$(server_options "$2" "$3" "$1" "${groups[@]}" 2>/dev/null | sed 's/^--//; s/^loose[-_]//' |
            grep -E '^(early[-_])?plugin[-_]load([-_]add)?=|^plugin[-_]dir=|^(file|hashicorp|aws)[-_]key[-_]management|^keyring[-_]')
    fi
    checked=$(as_owner cat -- "$1/backup-my.cnf" | tool_gets "$own") || { printf '%s\n' "$checked" && return 1; }
    # shellcheck disable=SC2016  # for the inner shell
    printf '%s\n' "$checked" | as_owner sh -c 'umask 077 && cat >"$1/backup-my.cnf.checked" && mv -f -T -- "$1/backup-my.cnf.checked" "$1/backup-my.cnf"' dbops "$1" ||
        fail "The options of the copy in $1 could not be replaced."
}
