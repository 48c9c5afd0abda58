#!/bin/bash
# Restore a published backup on a scratch server and read every table, after all checks. Always remove all created files. Does
# not connect to or stop other servers on this host.
# log.steps has one line for each step's start and end ("end NAME SECONDS BYTES"), log.counts one "SCHEMA TABLE ROWS" for each table.
# The arguments are those of read_copy_arguments.
# shellcheck disable=SC2034,SC2154  # for scratch.sh, and of read_copy_arguments
set -u
umask 077
scratch_kind=restore-test
read_copy_arguments "$@"

step check
must_be_scratch_id "$id"
must_be_machine "$machine"
check_copy
check_server_programs 'A restore test'
check_room 'the restored copy'
limit_job
enter_scratch
see_copy

step unpack
unpack_copy

step prepare
prepare_copy

step start
read_layout
start_server "${options[@]}"
# tables with rows elsewhere or only in memory are not part of a physical backup
tables="FROM information_schema.TABLES WHERE TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')
    AND TABLE_SCHEMA NOT IN ('information_schema', 'performance_schema', 'sys')
    AND COALESCE(ENGINE, '') NOT IN ($engines_elsewhere, 'BLACKHOLE', 'MEMORY')"
name="CONCAT('\`', REPLACE(TABLE_SCHEMA, '\`', '\`\`'), '\`.\`', REPLACE(TABLE_NAME, '\`', '\`\`'), '\`')"
end_step

step tables
query --raw -e "SELECT CONCAT('CHECK TABLE ', $name, ';') $tables ORDER BY TABLE_SCHEMA, TABLE_NAME" >check.sql 2>log.ask ||
    fail "tables the server cannot list its tables: $(words_of log.ask)"
(query_stage check --force <check.sql >log.checked)
status=$?
awk -F '\t' 'tolower($3) == "error" || ($3 == "status" && $4 != "OK" && $4 != "Table is already up to date")' log.checked >log.bad
checked=$(grep -c . check.sql)
[ ! -s log.bad ] || fail "tables bad lines of CHECK TABLE: $(wc -l <log.bad), the first: $(head -n 3 log.bad | tr '\n\t' '; ' | head -c 600)"
[ "$status" = 0 ] || blame_the_host_of_server "$status" "tables were checked"
[ "$status" = 0 ] || fail "tables the server did not check all tables: $(words_of log.check) $(grep -i '\[error\]' log.server | tail -n 2 | tr '\n' ' ' | head -c 400)"
kill -0 "$serving" 2>/dev/null || {
    blame_the_host_of_server 0 "tables were checked"
    fail "tables the server ended while it checked tables: $(words_of log.server)"
}
end_step "$(du -sb -- "$data" | cut -f1)"

step rows
query --raw -e "SELECT CONCAT('SELECT ', QUOTE(TABLE_SCHEMA), ', ', QUOTE(TABLE_NAME), ', COUNT(*) FROM ', $name, ';') $tables
    AND TABLE_SCHEMA <> 'mysql' ORDER BY TABLE_SCHEMA, TABLE_NAME" >count.sql 2>log.ask ||
    fail "tables the server cannot list its tables: $(words_of log.ask)"
(query_stage count <count.sql >log.counts) || {
    blame_the_host_of_server "$?" "rows were counted"
    fail "tables rows could not be counted: $(words_of log.count)"
}
end_step

step stop
stop_server
end_step
awk -F '\t' -v checked="$checked" '{ rows += $3 } END { printf "checked=%d\ntables=%d\nrows=%.0f\n", checked, NR, rows }' log.counts >log.facts
