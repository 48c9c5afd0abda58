#!/bin/bash
# Print the source's records of the copy, one line "NAME BASE64" each: the end of the log, and the named files of
# --extra-lsndir that exist.
set -u
printf 'backup.log %s\n' "$(tail -c 65536 backup.log | base64 -w0)"
if [ -d lsn ]; then # the sender of a shared read has written them
    cd lsn || exit
    for name in "$@"; do
        [ ! -f "$name" ] || printf '%s %s\n' "$name" "$(base64 -w0 -- "$name")"
    done
elif [ -d tool ]; then
    print_tool_files "$@"
fi
