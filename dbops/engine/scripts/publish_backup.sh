#!/bin/bash
# Give a whole backup its final name, the record of it first: who sees the file finds its record. It may run any number of times.
# $1 directory  $2 partial file's name  $3 final name  $4 device:inode  $5 bytes; standard input: the record
set -u
umask 077
cd -- "$1" || fail "$1 cannot be entered."
partial=$2 final=$3 identity=$4 bytes=$5
is_ours() { [ "$(identity_of "$1")" = "$identity" ] && [ "$(stat -c %s -- "$1")" = "$bytes" ]; }
if ! is_ours "$final"; then
    [ ! -e "$final" ] || refuse "$final exists already and is another file."
    is_ours "$partial" || fail "$partial is gone, or it is not the file that was written."
fi
{ cat >".$final.json.partial" && sync -- ".$final.json.partial" && mv -fT -- ".$final.json.partial" "$final.json"; } ||
    fail "The record of $final cannot be written."
[ -e "$final" ] || mv -nT -- "$partial" "$final" || fail "$partial cannot be renamed."
is_ours "$final" || fail "$final is not the file that was written."
sync -- . || fail "The directory could not be brought to the disk."
echo published
