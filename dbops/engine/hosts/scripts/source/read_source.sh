#!/bin/bash
# What the source kept of the copy: one line "NAME BASE64" each for the end of its log and for the files that exist of
# those named, from --extra-lsndir.
set -u
printf 'backup.log %s\n' "$(tail -c 65536 backup.log | base64 -w0)"
cd lsn || exit 0
for name in "$@"; do
    [ ! -e "$name" ] || printf '%s %s\n' "$name" "$(base64 -w0 -- "$name")"
done
