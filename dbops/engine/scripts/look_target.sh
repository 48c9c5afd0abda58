#!/bin/bash
# What is on the target now; the working directory is the run directory. $1 data directory  $2 where the old data may be, or empty
set -u
echo "datadir=$(identity_of "$1")"
echo "empty=$([ -n "$(find "$1" -mindepth 1 -print -quit 2>/dev/null)" ] || echo 1)"
echo "aside=$([ -z "$2" ] || identity_of "$2")"
echo "moved=$([ ! -e moved ] || echo 1)"
echo "pids=$(servers_in "$1" | tr '\n' ' ')"
