#!/bin/bash
# Create this run's key on the target, and store the source's pinned host key beside it. Print the public key.
# $1 run id   $2 line for known_hosts
set -eu
umask 077
[ -s key ] || ssh-keygen -q -t ed25519 -N '' -C "dbops-$1" -f key </dev/null
printf '%s\n' "$2" >known_hosts
cat key.pub
