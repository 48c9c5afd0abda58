#!/bin/bash
# Print the target's state; the working directory is the run directory. $1 data directory  $2 possible place of the old data,
# or empty  $3 run id of the marker in new data
set -u
mark=$(mark_of "$1" "$3")
say_whether() { # KEY TEST...
    local key=$1
    shift
    if "$@"; then echo "$key=1"; else echo "$key="; fi
}
echo "datadir=$(identity_of "$1")"
content=$(find "$1" -mindepth 1 -maxdepth 1 ! -name '.dbops-*' ! -name lost+found -print -quit 2>/dev/null)
say_whether empty [ -z "$content" ]
echo "aside=$([ -z "$2" ] || identity_of "$2")"
say_whether new [ -e "$mark" ]
say_whether leaving [ -e "$mark.leaving" ]
say_whether stopping [ -e stopping ]
say_whether moved [ -e moved ]
pids=$(servers_in "$1")
echo "pids=${pids//$'\n'/ }"
