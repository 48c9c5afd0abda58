#!/bin/bash
# Remove all files of a restore test on this host. Can run repeatedly. $1 place of its scratch directory  $2 its id
# shellcheck disable=SC2034  # for scratch.sh
set -u
scratch_kind=restore-test
remove_scratch "$1" "$2" || fail "not_removed $(scratch_of "$1" "$2") or its server could not be removed."
echo removed
