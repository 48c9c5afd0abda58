#!/bin/bash
# See that everything of the copy is on the disk, whatever was not waited for before. $1 data directory
set -u
cd -- "$1" || fail "$1 is not there."
# a file that the server removes meanwhile needs no disk
errors=$(find . -xdev -type f -exec sync -- {} + 2>&1 >/dev/null | grep -v 'No such file or directory' | tail -n 3)
[ -z "$errors" ] || fail "$errors"
