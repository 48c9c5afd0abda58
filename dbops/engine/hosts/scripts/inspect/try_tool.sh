#!/bin/bash
# Try the backup tool on the source with the option file and arguments of the backup: it logs in, prints its parameters and
# ends; it copies nothing. Then ask the server that this option file leads to who it is.
# Print "status=" of the tool, "server=" with server id and data directory's identity, and the tool's log: the options that it
# recognized, and its end.
# $1 client program  $2 socket  $3 seconds  then the backup command
set -u
umask 077
client=$1 socket=$2 seconds=$3
shift 3
cd "$DBOPS_RUN_DIR" || exit 70
trap 'rm -f try.log' EXIT
owner=$(stat -c %u:%g -- tool)
set_tool_words "$owner" "${DBOPS_RUN_DIR##*/}" "$@"
# shellcheck disable=SC2154  # set_tool_words sets it
(cd / && exec timeout -s KILL "$seconds" "${tool_words[@]}" --print-param) </dev/null >/dev/null 2>try.log
echo "status=$?"
set_tool_words "$owner" "${DBOPS_RUN_DIR##*/}" "$client" --defaults-file="$PWD/backup.cnf" --local-infile=0 --socket="$socket" \
    --connect-timeout=10 --batch --skip-column-names -e 'SELECT @@server_id, @@datadir'
if answer=$("${tool_words[@]}" 2>/dev/null); then
    read -r id where <<<"$answer"
    echo "server=$id $(identity_of "$where")"
fi
echo "log="
grep -a 'recognized [a-z]* arguments:' try.log | head -c 8000
tail -c 4000 try.log
