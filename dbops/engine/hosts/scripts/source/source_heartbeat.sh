#!/bin/bash
# Send the guard's heartbeat and print the backup's state and new log lines. $1 bytes of the log already read
set -u
beat
status=
{ read -r status <backup.status; } 2>/dev/null
find_living backup.pid
# shellcheck disable=SC2154  # find_living sets it
printf 'status=%s\nalive=%s\n' "$status" "$living"
echo "size=$(stat -c %s backup.log 2>/dev/null || echo 0)"
echo "log="
tail -c "+$(($1 + 1))" backup.log 2>/dev/null | head -c 65536
