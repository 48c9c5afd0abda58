#!/bin/bash
# Test the login to the local server. Standard input: option file of the admin account.
# $1 client program  $2 socket
set -eu
umask 077
trap 'rm -f log_in.cnf' EXIT
cat >log_in.cnf
"$1" --defaults-file=log_in.cnf --socket="$2" -e "SELECT 1" >/dev/null
