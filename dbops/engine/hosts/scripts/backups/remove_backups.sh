#!/bin/bash
# Remove files of backups with their records, by the full path of each. What was not there is told apart from what was removed:
# its file system may not be mounted.
# $@ paths
set -u
status=0
for file; do
    case ${file##*/} in '' | . | .. | *'*'*) refuse "$file is no name of a backup." ;; esac
    found=removed
    [ -e "$file" ] || found=absent
    if rm -f -- "$file" "$file.json" 2>/dev/null && [ ! -e "$file" ]; then
        printf '%s %s\n' "$found" "$file"
    else
        printf 'kept %s\n' "$file"
        status=1
    fi
done
exit "$status"
