#!/bin/bash
# Test the login to another host's server over the network, as the clone or replication will do. Standard input: option file
# of the account.
# $1 client program  $2 address  $3 port  $4 the server's directory of plugins, which its threads will use; or empty
set -eu
umask 077
trap 'rm -f try_donor.cnf' EXIT
cat >try_donor.cnf
if [ -n "${4-}" ]; then
    # the server names this directory: links only to what belongs to root
    rm -rf server_plugins
    link_plugins server_plugins "$4"
fi
"$1" --defaults-file=try_donor.cnf --protocol=TCP --host="$2" --port="$3" --connect-timeout=10 -e "SELECT 1" >/dev/null
