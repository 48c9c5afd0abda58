#!/bin/bash
# Functions that copy a schema of a scratch server many times. After common.sh. They need as_owner and ask, as measure.sh.
# Copies are dbops_copy_0001 and so on. A table of ours lists those that are complete, so that a second call continues.
# shellcheck disable=SC2154  # those

ask_copies() { as_owner "${ask[@]}" "${only_sql[@]}" "$@"; }

# Print how many copies are complete.
count_copies() { ask_copies -e 'SELECT COUNT(*) FROM dbops_load.copies' 2>/dev/null </dev/null; }

# Print the statements that fill an empty copy. CREATE TABLE ... LIKE keeps neither foreign keys nor triggers.
# $1 schema, as a string of SQL  $2 share of its rows, 0 to 1
print_template() {
    # lists of columns are longer than the default of GROUP_CONCAT; statistics must not be those of a day ago
    ask_copies --raw -e "
        SET SESSION group_concat_max_len = 1048576, sql_mode = '';
        /*!80000 SET SESSION information_schema_stats_expiry = 0 */;
        SELECT CONCAT('CREATE TABLE ', $quoted, ' LIKE ', $origin, ';') FROM information_schema.TABLES AS t WHERE $tables = $1;
        SELECT CONCAT('INSERT INTO ', $quoted, ' (', c.names, ') SELECT ', c.names, ' FROM ', $origin, IF($2 >= 1, '', CONCAT(' LIMIT ',
            CAST(CEIL(GREATEST(COALESCE(t.TABLE_ROWS, 1), 1) * $2) AS UNSIGNED))), ';')
        FROM information_schema.TABLES AS t JOIN (
            SELECT TABLE_NAME, GROUP_CONCAT(CONCAT('\`', REPLACE(COLUMN_NAME, '\`', '\`\`'), '\`') ORDER BY ORDINAL_POSITION SEPARATOR ', ') AS names
            FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = $1 AND $stored GROUP BY TABLE_NAME
        ) AS c ON c.TABLE_NAME = t.TABLE_NAME WHERE $tables = $1 AND $2 > 0" </dev/null
}
quoted="CONCAT('\`', REPLACE(t.TABLE_NAME, '\`', '\`\`'), '\`')"
origin="CONCAT('\`', REPLACE(t.TABLE_SCHEMA, '\`', '\`\`'), '\`.\`', REPLACE(t.TABLE_NAME, '\`', '\`\`'), '\`')"
# a copy of a table elsewhere would be that same table: it is left out
tables="t.TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') AND COALESCE(t.ENGINE, '') NOT IN ($engines_elsewhere) AND t.TABLE_SCHEMA"
# MariaDB and MySQL call the rest "VIRTUAL GENERATED" and "STORED GENERATED"; "DEFAULT_GENERATED" is a default
stored="EXTRA NOT LIKE '%VIRTUAL GENERATED%' AND EXTRA NOT LIKE '%STORED GENERATED%' AND EXTRA NOT LIKE '%PERSISTENT%'"

# Print the statements for every ${3}th copy from $1 to $2 that is not complete.
print_copies() {
    local number name
    for ((number = $1; number <= $2; number += $3)); do
        ! grep -qxF -e "$number" copies.done || continue
        printf -v name 'dbops_copy_%04d' "$number"
        printf 'DROP DATABASE IF EXISTS %s;\nCREATE DATABASE %s;\nUSE %s;\n' "$name" "$name" "$name"
        cat copies.template
        printf 'INSERT INTO dbops_load.copies VALUES (%s);\n' "$number"
    done
}

# Make the copies 1 to $2 of schema $1 with a share $3 (0 to 1) of its rows, as far as they are missing. The schema's name is hexadecimal
# utf8mb4: no quoting can go wrong. Writes "copies DONE WANTED TIME" to log.copies, and notes to log.notes.
make_copies() {
    local hex=$1 wanted=$2 share=$3 schema found client clients=() failed=
    case $hex in '' | *[!0-9a-fA-F]*) refuse "copies the schema's name is invalid." ;; esac
    case $wanted in '' | *[!0-9]*) refuse "copies the number of schemas is invalid." ;; esac
    case $share in '' | *[!0-9.]*) refuse "copies the share of rows is invalid." ;; esac
    schema="CONVERT(X'$hex' USING utf8mb4)"
    ask_copies -e "CREATE DATABASE IF NOT EXISTS dbops_load;
        CREATE TABLE IF NOT EXISTS dbops_load.copies (number INT PRIMARY KEY) ENGINE=InnoDB" </dev/null 2>log.copy ||
        fail "copies the list of copies cannot be made: $(tail -n 2 log.copy | head -c 400)"
    ask_copies -e 'SELECT number FROM dbops_load.copies' </dev/null >copies.done 2>log.copy || fail "copies $(tail -n 2 log.copy | head -c 400)"
    print_template "$schema" "$share" >copies.template 2>log.copy || fail "copies the tables cannot be listed: $(tail -n 2 log.copy | head -c 400)"
    [ -s copies.template ] || fail "copies the schema has no tables, or does not exist."
    note_losses "$schema" >log.notes 2>/dev/null
    for client in 1 2 3 4; do
        (print_copies "$client" "$wanted" 4 | (
            exec_as_owner "${ask[@]}" "${only_sql[@]}" --init-command="SET SESSION foreign_key_checks=0, unique_checks=0, sql_mode='NO_AUTO_VALUE_ON_ZERO'"
        ) 2>"log.copy.$client") &
        clients+=("$!")
    done
    while kill -0 "${clients[@]}" 2>/dev/null; do
        printf 'copies %s %s %s\n' "$(count_copies)" "$wanted" "$(date +%s.%3N)" >>log.copies
        sleep 1
    done
    for client in "${clients[@]}"; do wait "$client" || failed=1; done
    found=$(count_copies)
    printf 'copies %s %s %s\n' "${found:-0}" "$wanted" "$(date +%s.%3N)" >>log.copies
    { [ -z "$failed" ] && [ "${found:-0}" -ge "$wanted" ]; } || fail "copies ${found:-0} of $wanted were made: $(cat log.copy.? | tail -n 3 | tr '\n\t' '  ' | head -c 600)"
    rm -f copies.template copies.done log.copy.?
}

# Print what the copies do not have. $1 schema, as a string of SQL
note_losses() {
    ask_copies -e "SELECT CONCAT('foreign-keys ', COUNT(*)) FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = $1 HAVING COUNT(*) > 0;
        SELECT CONCAT('triggers ', COUNT(*)) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = $1 HAVING COUNT(*) > 0;
        SELECT CONCAT('not-tables ', COUNT(*)) FROM information_schema.TABLES WHERE TABLE_SCHEMA = $1
            AND TABLE_TYPE NOT IN ('BASE TABLE', 'SYSTEM VERSIONED') HAVING COUNT(*) > 0;
        SELECT CONCAT('elsewhere ', COUNT(*)) FROM information_schema.TABLES WHERE TABLE_SCHEMA = $1
            AND ENGINE IN ($engines_elsewhere) HAVING COUNT(*) > 0" </dev/null
}

# Append sampled rows of the copied data to the generator's input: the output of sample.sql. Print the numbers of the tables without rows,
# separated by commas: empty ones, and those that the data does not have. Their values are fixed ones.
sample_values() {
    ask_copies --force <sample.sql >rows.input 2>log.sample
    grep -a '^row' rows.input >>load.input
    awk -F '\t' -v "tables=$(grep -c '^SELECT ' sample.sql)" '$1 == "row" { seen[$2] = 1 }
        END { for (at = 1; at <= tables; at++) if (!(at in seen)) printf "%s%s", (found++ ? "," : ""), at }' rows.input
    rm -f rows.input
}
