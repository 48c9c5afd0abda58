#!/bin/bash
# Remove the file that a failed run published, and nothing that does not belong to that run. Can run repeatedly.
# $1 directory  $2 final name  $3 bytes  $4 run  $5 sha256
set -u
cd -- "$1" || fail "Cannot enter $1."
final=$2 bytes=$3 run=$4 sha256=$5
case $final in '' | . | .. | */* | *'*'*) refuse "$final is not a backup's name." ;; esac
rm -f -- ".$final.json.partial"
if [ -e "$final" ] && ! is_backup_of "$final" "$bytes" "$run" "$sha256"; then
    echo another
    exit
fi
# the record last: it identifies the file
if is_record_of "$final.json" "$run" "$sha256"; then
    { rm -f -- "$final" && rm -f -- "$final.json"; } || fail "$final cannot be removed."
fi
echo withdrawn
