#!/bin/bash
# Set the rate limit of the running stream. $1 bytes per second, empty for no limit
set -eu
umask 077
cd jobs/stream
printf '%s\n' "$1" >rate.tmp
mv -f rate.tmp rate
