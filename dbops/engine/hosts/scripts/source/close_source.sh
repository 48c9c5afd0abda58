#!/bin/bash
# Release the source now and stop the guard. Standard input: option file of the admin account.
# $1 run id  $2 authorized_keys file or empty  $3 SSH user  $4 client program  $5 socket  $6 statement that resumes
set -u
umask 077
status=0
trap 'rm -f close.cnf' EXIT
cat >close.cnf
end_backup
resume_replication "$4" "$PWD/close.cnf" "$5" "$6" || status=1
revoke_key "$(keys_file "$2" "$3")" "$1" || status=1
rm -rf backup.cnf tool.cnf backup.argv backup.pid serve shared_read shared_read.py gone.* tool target lsn
if [ "$status" = 0 ]; then
    touch release
    # a guard that was killed with all processes of its host could not remove them; a living one no longer needs them
    rm -f jobs/guard*/admin.cnf
fi
exit "$status"
