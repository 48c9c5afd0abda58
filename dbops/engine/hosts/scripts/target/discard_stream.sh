#!/bin/bash
# Pull a stream of zeros from the source and discard it. Writes only to the run's directory.
# log.measured: bytes, and nanoseconds from the first byte to the last. log.cipher: the cipher that ssh negotiated.
# $1 time limit in seconds  then ssh's words
set -u
umask 077
trap 'rm -f -- "$DBOPS_RUN_DIR/key" "$DBOPS_RUN_DIR/key.pub" "$DBOPS_RUN_DIR/known_hosts"' EXIT
patience=$1
shift
(exec timeout --preserve-status -k 1 "$patience" "$@" 2>log.ssh </dev/null) | (
    dd bs=1 count=1 of=/dev/null status=none # time counts from the first byte, without the login
    first=$(date +%s%N)
    bytes=$(wc -c)
    last=$(date +%s%N)
    echo "$bytes $((last - first))" >log.measured
)
stages=("${PIPESTATUS[@]}")
echo "${stages[0]}" >stage.transport
grep -a -m 1 'kex: server->client cipher:' log.ssh >log.cipher
grep -a -v '^debug1:' log.ssh | tail -n 10 >log.transport
rm -f log.ssh
