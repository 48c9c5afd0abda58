#!/bin/bash
# A key of this run alone, made on the target, and the source's pinned host key beside it. Prints the public key.
# $1 run id   $2 line for known_hosts
set -eu
umask 077
[ -s key ] || ssh-keygen -q -t ed25519 -N '' -C "dbops-$1" -f key </dev/null
printf '%s\n' "$2" >known_hosts
cat key.pub
