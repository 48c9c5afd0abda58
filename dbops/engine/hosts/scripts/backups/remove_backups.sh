#!/bin/bash
# Remove backup files and their records by full path. Report missing files separately from removed ones, because their file
# system can be unmounted.
# $@ paths
set -u
status=0
for file; do
    case ${file##*/} in '' | . | .. | *'*'*) refuse "$file is not a backup's name." ;; esac
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
