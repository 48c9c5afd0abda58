#!/bin/bash
# Make the copy the target's own: owner of every file, no identity and no tool files of the source.
# $1 data directory  $2 its device:inode  $3 run id of its mark  $4 owner  then names of tool files to remove
set -u
datadir=$1 identity=$2 mark=$3 owner=$4
shift 4
must_be_new_copy "$datadir" "$identity" "$mark"
no_server_on "$datadir"
cd "$datadir" || fail "$datadir cannot be entered."
rm -f -- auto.cnf "$@" || fail "Tool files could not be removed."
group=$(id -gn -- "$owner") || fail "The user $owner does not exist."
find . -mindepth 1 ! -path './.dbops-old-*' \( ! -user "$owner" -o ! -group "$group" \) -exec chown -h "$owner:$group" -- {} + ||
    fail "Files could not be given to $owner."
if command -v selinuxenabled >/dev/null && selinuxenabled; then restorecon -R -- "$datadir" || fail "restorecon failed."; fi
echo "owner=$owner:$group"
