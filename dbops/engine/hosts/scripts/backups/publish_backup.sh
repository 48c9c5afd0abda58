#!/bin/bash
# Give a whole backup its final name, the record of it first: who sees the file finds its record. It may run any number of times.
# $1 directory  $2 partial file's name  $3 final name  $4 device:inode  $5 bytes  $6 run  $7 sha256; standard input: the record
set -u
umask 077
cd -- "$1" || fail "$1 cannot be entered."
partial=$2 final=$3 identity=$4 bytes=$5 run=$6 sha256=$7
trap 'rm -f -- ".$final.json.partial"' EXIT
is_ours() { [ "$(identity_of "$1")" = "$identity" ] && [ "$(stat -c %s -- "$1")" = "$bytes" ]; }
# a file system that was mounted meanwhile has another device number: the record says whose file it is
is_published() { is_ours "$final" || is_backup_of "$final" "$bytes" "$run" "$sha256"; }
if ! is_published; then
    [ ! -e "$final" ] || refuse "$final exists already and is another file."
    is_ours "$partial" || fail "$partial is gone, or it is not the file that was written."
fi
{ cat >".$final.json.partial" && sync -- ".$final.json.partial" && mv -fT -- ".$final.json.partial" "$final.json"; } ||
    fail "The record of $final cannot be written."
[ -e "$final" ] || mv -nT -- "$partial" "$final" || fail "$partial cannot be renamed."
is_published || fail "$final is not the file that was written."
sync -- . || fail "The directory could not be brought to the disk."
echo published
