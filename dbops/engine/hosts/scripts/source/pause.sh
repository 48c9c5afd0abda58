#!/bin/bash
# Stop the source's applier; the mark is written first, so that the guard resumes even what was stopped a moment ago.
# Standard input: option file of the admin account. $1 client program  $2 socket  $3 statement
set -eu
umask 077
for _ in $(seq 50); do
    ! living_pid guard.pid >/dev/null || break # the file of a guard that has ended may still be there
    sleep 0.1
done
if ! living_pid guard.pid >/dev/null; then
    echo "The guard does not run: nothing is paused."
    exit 65
fi
trap 'rm -f pause.cnf' EXIT
cat >pause.cnf
"$1" --defaults-file=pause.cnf --socket="$2" -e "SELECT 1" >/dev/null
touch heartbeat paused
# A guard says that it gives up before it looks for a pause for the last time: so one of the two sees the other.
if [ -e given_back ] || [ -e release ] || ! living_pid guard.pid >/dev/null; then
    echo "The guard is just giving the source back: nothing is paused."
    exit 65
fi
# A server that hangs must not be told to stop after the guard has told it to start: what cannot be said soon is not said.
"$1" --defaults-file=pause.cnf --connect-timeout=10 --socket="$2" -e "$3"
