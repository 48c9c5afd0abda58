#!/bin/bash
# Print each file of a directory that exists: its name, then its content in base64, on one line.
# $1 directory  then names
set -u
cd "$1" || exit 66
shift
for name in "$@"; do
    [ ! -e "$name" ] || printf '%s %s\n' "$name" "$(base64 -w0 -- "$name")"
done
