#!/bin/bash
# Remove files of backups with their records, by the full path of each. What is gone already counts as removed.
# $@ paths
set -u
status=0
for file; do
    case ${file##*/} in '' | . | .. | *'*'*) refuse "$file is no name of a backup." ;; esac
    if rm -f -- "$file" "$file.json" 2>/dev/null && [ ! -e "$file" ]; then
        printf 'removed %s\n' "$file"
    else
        printf 'kept %s\n' "$file"
        status=1
    fi
done
exit "$status"
