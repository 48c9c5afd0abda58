#!/bin/bash
# Remove what a run that failed has published, and nothing that is not known to be of that run. It may run any number of times.
# $1 directory  $2 final name  $3 bytes  $4 run  $5 sha256
set -u
cd -- "$1" || fail "$1 cannot be entered."
final=$2 bytes=$3 run=$4 sha256=$5
case $final in '' | . | .. | */* | *'*'*) refuse "$final is no name of a backup." ;; esac
rm -f -- ".$final.json.partial"
if [ -e "$final" ] && ! is_backup_of "$final" "$bytes" "$run" "$sha256"; then
    echo another
    exit
fi
# the record last: without it the file would not be known again
if is_record_of "$final.json" "$run" "$sha256"; then
    { rm -f -- "$final" && rm -f -- "$final.json"; } || fail "$final cannot be removed."
fi
echo withdrawn
