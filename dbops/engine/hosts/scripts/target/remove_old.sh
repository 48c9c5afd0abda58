#!/bin/bash
# Remove what a run moved aside (the old data, or a copy that was given up), and nothing else. $1 directory  $2 its device:inode
set -u
[ -e "$1" ] || { echo "It is gone already." && exit 0; }
[ "$(identity_of "$1")" = "$2" ] || refuse "$1 is not the directory that this run moved aside."
[ -z "$(servers_in "$1")" ] || refuse "A server runs on $1."
case $1 in *dbops-old-* | *dbops-failed-*) ;; *) refuse "$1 is not a directory that dbops moved aside." ;; esac
find "$1" -xdev -depth -delete || fail "$1 could not be removed."
