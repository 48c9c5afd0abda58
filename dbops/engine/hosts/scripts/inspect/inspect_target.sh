#!/bin/bash
# Print the target's state; the working directory is the run directory. $1 data directory  $2 possible place of the old data,
# or empty  $3 run id of the marker in new data
set -u
echo "datadir=$(identity_of "$1")"
echo "empty=$([ -n "$(find "$1" -mindepth 1 -maxdepth 1 ! -name '.dbops-*' ! -name lost+found -print -quit 2>/dev/null)" ] || echo 1)"
echo "aside=$([ -z "$2" ] || identity_of "$2")"
echo "new=$([ ! -e "$(mark_of "$1" "$3")" ] || echo 1)"
echo "leaving=$([ ! -e "$(mark_of "$1" "$3").leaving" ] || echo 1)"
echo "stopping=$([ ! -e stopping ] || echo 1)"
echo "moved=$([ ! -e moved ] || echo 1)"
echo "pids=$(servers_in "$1" | tr '\n' ' ')"
