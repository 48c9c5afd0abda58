#!/bin/bash
# Make a copy quiet before its first start: nothing in its data replicates or runs on its own. For start.sh.
# The operator's start command reads the target's own option file, so what is quiet must be so in the data.
# Needs server_log.sh, and datadir, owner and quiet_server of start.sh.
# shellcheck disable=SC2154

# Become a server out of reach: no network, socket and log in $scratch. Arguments: options for this start.
private_server() {
    echo "$BASHPID" >pid.quiet
    # it must not inherit the lock of this job
    exec_as_owner "${quiet_server[@]}" "--datadir=$datadir" "--socket=$scratch/s" "--pid-file=$scratch/pid" \
        "--log-error=$scratch/errors.log" "$@" 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
}

last_errors() { as_owner tail -n 200 -- "$scratch/errors.log" 2>/dev/null | grep -a -F '[ERROR]' | tail -n 3 | tr '\n' ' '; }

# Forget the files of links and relay logs by their default names.
forget_links() {
    as_owner find "$datadir" -mindepth 1 -maxdepth 1 ! -type d \( -name master.info -o -name 'master-*.info' -o -name multi-master.info \
        -o -name relay-log.info -o -name 'relay-log-*.info' -o -name '*-relay-bin.[0-9]*' -o -name '*-relay-bin.index' \
        -o -name '*-relay-bin-*.[0-9]*' -o -name '*-relay-bin-*.index' \) -delete ||
        fail "Replication files of the source could not be removed from $datadir."
}

# MariaDB: change the table of events itself, in a server that only reads standard input.
quiet_mariadb() {
    local size
    size=$(stat -c %s -- "$datadir/mysql/event.MAD" 2>/dev/null || stat -c %s -- "$datadir/mysql/event.MYD" 2>/dev/null)
    case ${size:-0} in 0 | 8192) return ;; esac # no event was ever made: Aria has one page then, MyISAM none
    printf '%s\n' "SET sql_log_bin = 0;" \
        "SELECT CONCAT(db, '.', name) FROM mysql.event WHERE status = 'ENABLED' INTO OUTFILE '$scratch/events';" \
        "UPDATE mysql.event SET status = 'SLAVESIDE_DISABLED' WHERE status = 'ENABLED';" >statements
    (private_server --bootstrap "--secure-file-priv=$scratch") <statements >log.quiet 2>&1 ||
        fail "Events of the copy could not be disabled: $(last_errors)$(grep -a '^ERROR' log.quiet | tail -n 1)"
}

# MySQL: only statements change its data dictionary. An account of this start alone makes them, whatever the admin may.
quiet_mysql() { # $1 client program  $2 statements that forget replication  $3 REPLICA or SLAVE
    local client=$1 forget=$2 replica=$3 password ask quoted enabled
    umask 077
    password="Aa1-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
    printf '%s\n' "SET sql_log_bin = 0;" "DROP USER IF EXISTS 'dbops-quiet'@'localhost';" \
        "CREATE USER 'dbops-quiet'@'localhost' IDENTIFIED BY '$password';" \
        "GRANT ALL ON *.* TO 'dbops-quiet'@'localhost';" | as_owner tee "$scratch/init.sql" >/dev/null
    printf '%s\n' "[client]" "user=dbops-quiet" "password=$password" "socket=$scratch/s" | as_owner tee "$scratch/client.cnf" >/dev/null
    trap 'kill -KILL "$serving" 2>/dev/null; rm -rf -- "$scratch"' EXIT
    private_server "--init-file=$scratch/init.sql" </dev/null >log.quiet 2>&1 &
    serving=$!
    # as the owner, who can listen in the server's place and answer with a command of the client
    ask=(as_owner "$client" "--defaults-file=$scratch/client.cnf" "${only_sql[@]}" --batch --skip-column-names --raw --default-character-set=utf8mb4)
    until "${ask[@]}" -e 'SELECT 1' >/dev/null 2>log.ask; do
        kill -0 "$serving" 2>/dev/null || fail "The server that makes the copy quiet ended: $(last_errors)"
        sleep 0.2
    done
    "${ask[@]}" -e "SET sql_log_bin = 0; $forget" >log.ask 2>&1 || fail "The copy's links could not be forgotten: $(tail -n 1 log.ask)"
    enabled="FROM information_schema.EVENTS WHERE STATUS = 'ENABLED'"
    quoted="CONCAT('ALTER DEFINER = \`', REPLACE(LEFT(DEFINER, CHAR_LENGTH(DEFINER) - LOCATE('@', REVERSE(DEFINER))), '\`', '\`\`'),
        '\`@\`', REPLACE(SUBSTRING_INDEX(DEFINER, '@', -1), '\`', '\`\`'), '\` EVENT \`', REPLACE(EVENT_SCHEMA, '\`', '\`\`'),
        '\`.\`', REPLACE(EVENT_NAME, '\`', '\`\`'), '\` DISABLE ON $replica;')"
    { "${ask[@]}" -e "SELECT CONCAT(EVENT_SCHEMA, '.', EVENT_NAME) $enabled" >events &&
        { echo "SET sql_log_bin = 0;" && "${ask[@]}" -e "SELECT $quoted $enabled"; } >statements &&
        "${ask[@]}" <statements; } 2>log.ask || fail "Events of the copy could not be disabled: $(tail -n 1 log.ask)"
    # a clean shutdown writes all remaining data
    "${ask[@]}" -e "SET sql_log_bin = 0; DROP USER 'dbops-quiet'@'localhost'; SHUTDOWN" 2>log.ask ||
        fail "The server that makes the copy quiet could not be stopped: $(tail -n 1 log.ask)"
    wait "$serving" || fail "The server that makes the copy quiet ended badly: $(last_errors)"
    rm -f log.ask
}

# $1 flavor  $2 client program  $3 statements that forget replication  $4 REPLICA or SLAVE
# Writes log.events: the names of events that it disabled.
quiet_copy() {
    forget_links
    scratch=$(mktemp -d /tmp/dbops-quiet.XXXXXX) || fail "Cannot create a directory in /tmp."
    trap 'rm -rf -- "$scratch"' EXIT
    chown -- "$owner" "$scratch" || fail "The user $owner does not exist."
    if [ "$1" = mariadb ]; then quiet_mariadb; else quiet_mysql "$2" "$3" "$4"; fi
    if [ -e events ]; then head -n 100 events; else as_owner head -n 100 -- "$scratch/events" 2>/dev/null; fi >log.events
    return 0
}
