#!/bin/bash
# Let this run's sender start without a target that has ended before it connected. $1 its name
set -eu
umask 077
: >"gone.$1"
