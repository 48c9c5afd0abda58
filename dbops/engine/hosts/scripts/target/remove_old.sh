#!/bin/bash
# Remove a directory that a run moved aside (old data or an abandoned copy), and nothing else. $1 directory  $2 its device:inode
# $3 owner of the data
set -u
[ -e "$1" ] || { echo "Already removed." && exit 0; }
[ "$(identity_of "$1")" = "$2" ] || refuse "$1 is not the directory that this run moved aside."
[ -z "$(servers_in "$1")" ] || refuse "A server runs on $1."
case $1 in *dbops-old-* | *dbops-failed-*) ;; *) refuse "$1 is not a directory that dbops moved aside." ;; esac
become "$3"
# Small files four at a time: each waits for the disk (10,000 tables: 2 to 13 s in a row, 1.2 s in this way). -execdir works in the
# directory that find has open, so that a link in its place leads nowhere. The second find removes what is left.
in_data "$1" "$2" find . -xdev ! -type d -size -64M -execdir bash -c 'printf "%s\0" "$@" | xargs -0 -P 4 -n 200 rm -f --' bash {} + 2>/dev/null || :
in_data "$1" "$2" find . -xdev -mindepth 1 -depth -delete 2>/dev/null || :
# Files of other accounts remain. Root removes them, and the directory itself, only where no other account exchanges its name.
(
    must_enter_directory_of "$1"
    name=./${1##*/}
    [ "$(identity_of "$name")" = "$2" ] || fail "$1 was exchanged."
    as_names find "$name" -xdev -depth -delete || fail "$1 could not be removed."
)
