#!/bin/sh
# Check that a host meets dbops's requirements. Changes nothing and needs only a POSIX shell.
# $1 work directory  $2 authorized_keys file or empty  $3 SSH user  then names of programs
work=$1 keys=$2 user=$3
shift 3
PATH=${PATH:-/usr/bin:/bin}:/usr/local/sbin:/usr/sbin:/sbin
LC_ALL=C
export PATH LC_ALL

can_write() { # an existing file or directory, or its nearest existing parent
    at=$1
    until [ -e "$at" ] || [ "$at" = / ] || [ -z "$at" ]; do
        at=${at%/*}
    done
    [ -w "${at:-/}" ] && echo 1 || echo 0
}

echo "user=$(id -un)"
echo "host=$(uname -n)"
echo "system=$(uname -sr)"
echo "gate=${DBOPS_GATE-}"
missing=
for program in "$@"; do
    command -v "$program" >/dev/null || missing="$missing $program"
done
echo "missing=${missing# }"
echo "work_writable=$(can_write "$work")"
at=$work
until [ -e "$at" ] || [ -z "$at" ]; do
    at=${at%/*}
done
echo "work_free=$(df -B1 --output=avail -- "${at:-/}" 2>/dev/null | tail -n +2 | tr -d ' ')"
[ -n "$keys" ] || keys=$(getent passwd "$user" | cut -d: -f6)/.ssh/authorized_keys
echo "keys=$keys"
echo "keys_writable=$(can_write "$keys")"
echo done=1
