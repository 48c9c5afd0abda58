#!/bin/bash
# Remove a directory that a run moved aside (old data or an abandoned copy), and nothing else. $1 directory  $2 its device:inode
set -u
[ -e "$1" ] || { echo "Already removed." && exit 0; }
[ "$(identity_of "$1")" = "$2" ] || refuse "$1 is not the directory that this run moved aside."
[ -z "$(servers_in "$1")" ] || refuse "A server runs on $1."
case $1 in *dbops-old-* | *dbops-failed-*) ;; *) refuse "$1 is not a directory that dbops moved aside." ;; esac
find "$1" -xdev -depth -delete || fail "$1 could not be removed."
