#!/bin/bash
# Adapt the copy to the target: remove the source's identity and tool files, as the owner of the data, who has unpacked it.
# Root changes no owner: a database account can exchange the files for others.
# $1 data directory  $2 its device:inode  $3 run id of its marker  $4 owner  then names of tool files to remove
set -u
datadir=$1 identity=$2 mark=$3 owner=$4
shift 4
become "$owner"
must_be_new_copy "$datadir" "$identity" "$mark"
no_server_on "$datadir"
in_data "$datadir" "$identity" rm -f -- auto.cnf "$@" || fail "Tool files could not be removed."
foreign=$(in_data "$datadir" "$identity" find . -mindepth 1 \( -path './.dbops-*' -o -path ./lost+found \) -prune -o \
    ! -user "$owner" -print -quit) ||
    fail "The files of $datadir could not be listed."
[ -z "$foreign" ] || fail "${foreign#./} in $datadir does not belong to $owner."
echo "owner=$owner"
