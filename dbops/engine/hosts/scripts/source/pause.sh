#!/bin/bash
# Stop the source's applier. Write the marker first, so that the guard resumes it even right after the stop.
# Standard input: option file of the admin account. $1 client program  $2 socket  $3 statement
set -eu
umask 077
for _ in $(seq 50); do
    ! living_pid guard.pid >/dev/null || break # the file of an ended guard can still exist
    sleep 0.1
done
if ! living_pid guard.pid >/dev/null; then
    echo "The guard does not run. Replication was not paused."
    exit 65
fi
trap 'rm -f pause.cnf' EXIT
cat >pause.cnf
"$1" --defaults-file=pause.cnf --socket="$2" -e "SELECT 1" >/dev/null
touch heartbeat paused
# A guard announces the release before its last check for a pause, so one of the two sees the other.
if [ -e given_back ] || [ -e release ] || ! living_pid guard.pid >/dev/null; then
    echo "The guard is releasing the source. Replication was not paused."
    exit 65
fi
# With a timeout: a hanging server must not get the stop after the guard's start.
"$1" --defaults-file=pause.cnf --connect-timeout=10 --socket="$2" -e "$3"
