#!/bin/bash
# Rename a complete backup to its final name, after writing its record, so that each file has one. Can run repeatedly.
# $1 directory  $2 partial file's name  $3 final name  $4 device:inode  $5 bytes  $6 run  $7 sha256; standard input: the record
set -u
umask 077
cd -- "$1" || fail "Cannot enter $1."
partial=$2 final=$3 identity=$4 bytes=$5 run=$6 sha256=$7
trap 'rm -f -- ".$final.json.partial"' EXIT
is_ours() { [ "$(identity_of "$1")" = "$identity" ] && [ "$(stat -c %s -- "$1")" = "$bytes" ]; }
# a remounted file system has another device number: the record identifies the file
is_published() { is_ours "$final" || is_backup_of "$final" "$bytes" "$run" "$sha256"; }
if ! is_published; then
    [ ! -e "$final" ] || refuse "$final already exists and is another file."
    is_ours "$partial" || fail "$partial is missing or is not the written file."
fi
rm -f -- ".$final.json.partial"
# as a new file: another account may be able to put a link in its place
{ (set -o noclobber && exec 96>".$final.json.partial" && [ "$(LC_ALL=C stat -L -c %F /dev/fd/96)" = "regular empty file" ] && cat >&96) && sync -- ".$final.json.partial" && mv -fT -- ".$final.json.partial" "$final.json"; } ||
    fail "The record of $final cannot be written."
[ -e "$final" ] || mv -nT -- "$partial" "$final" || fail "$partial cannot be renamed."
is_published || fail "$final is not the written file."
sync -- . || fail "The directory could not be synced to disk."
echo published
