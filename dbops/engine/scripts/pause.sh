#!/bin/bash
# Stop the source's applier; the mark is written first, so that the guard resumes even what was stopped a moment ago.
# Standard input: option file of the admin account. $1 client program  $2 socket  $3 statement
set -eu
umask 077
for _ in $(seq 50); do
    [ ! -s guard.pid ] || break
    sleep 0.1
done
if ! kill -0 "$(cat guard.pid)"; then
    echo "The guard does not run: nothing is paused."
    exit 65
fi
trap 'rm -f pause.cnf' EXIT
cat >pause.cnf
"$1" --defaults-file=pause.cnf --socket="$2" -e "SELECT 1" >/dev/null
touch heartbeat paused
"$1" --defaults-file=pause.cnf --socket="$2" -e "$3"
