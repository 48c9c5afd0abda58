#!/bin/bash
# Resume the source's applier. Standard input: option file of the admin account.
# $1 client program  $2 socket  $3 statement
set -eu
umask 077
trap 'rm -f resume.cnf' EXIT
cat >resume.cnf
touch heartbeat
resume_replication "$1" "$PWD/resume.cnf" "$2" "$3"
