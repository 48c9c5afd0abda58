#!/bin/bash
# Print the machine's boot id, and the server's process with its start time.
# $1 data directory
set -u
read -r boot </proc/sys/kernel/random/boot_id
echo "boot=$boot"
found=
for pid in $(servers_in "$1"); do
    line=
    { read -r line <"/proc/$pid/stat"; } 2>/dev/null || continue
    # shellcheck disable=SC2086  # the words after the name, which may hold spaces and brackets itself
    set -- ${line##*) }
    [ "$1" = Z ] || found="$found $pid:${20}"
done
echo "server=${found# }"
