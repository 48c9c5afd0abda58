#!/bin/bash
# Adapt the copy to the target: set the owner of all files; remove the source's identity and tool files.
# $1 data directory  $2 its device:inode  $3 run id of its marker  $4 owner  then names of tool files to remove
set -u
datadir=$1 identity=$2 mark=$3 owner=$4
shift 4
must_be_new_copy "$datadir" "$identity" "$mark"
no_server_on "$datadir"
cd "$datadir" || fail "Cannot enter $datadir."
rm -f -- auto.cnf "$@" || fail "Tool files could not be removed."
group=$(id -gn -- "$owner") || fail "The user $owner does not exist."
find . -mindepth 1 ! -path './.dbops-old-*' \( ! -user "$owner" -o ! -group "$group" \) -exec chown -h "$owner:$group" -- {} + ||
    fail "The owner of files could not be changed to $owner."
if command -v selinuxenabled >/dev/null && selinuxenabled; then restorecon -R -- "$datadir" || fail "restorecon failed."; fi
echo "owner=$owner:$group"
