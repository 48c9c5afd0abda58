#!/bin/bash
# The dead-man switch on the source. It needs nobody alive: when the run is released, or its heartbeat stops, it ends the
# backup, starts replication again if we stopped it, and takes the key and the credentials away.
#
# $1 run id  $2 authorized_keys file or empty  $3 SSH user  $4 client program  $5 socket  $6 statement that resumes
# $7 seconds without heartbeat that are borne while replication is paused  $8 the same while it is not
set -u
umask 077
run_id=$1 keys=$(keys_file "$2" "$3") client=$4 socket=$5 resume=$6 patience_paused=$7 patience_idle=$8
cd "$DBOPS_RUN_DIR" || exit 70
rm -f release given_back
touch heartbeat
write_pid $$ guard.pid

silence() { echo $(($(date +%s) - $(stat -c %Y heartbeat))); }

while [ ! -e release ]; do
    if [ -e paused ]; then
        patience=$patience_paused
        if [ -e backup.pid ] && ! backup_pid >/dev/null; then
            end_backup
            resume_replication "$client" "$DBOPS_JOB_DIR/admin.cnf" "$socket" "$resume" && echo "The backup has ended: replication resumed."
        fi
    else
        patience=$patience_idle
    fi
    if [ "$(silence)" -gt "$patience" ]; then
        echo "no heartbeat for $(silence) s" >given_back
        echo "No heartbeat for $(silence) s: giving the source back."
        break
    fi
    sleep 0.5
done
end_backup
revoke_key "$keys" "$run_id"
until resume_replication "$client" "$DBOPS_JOB_DIR/admin.cnf" "$socket" "$resume"; do sleep 1; done
for _ in $(seq 60); do # a full disk, or another run at the same file; the key also expires by itself
    ! revoke_key "$keys" "$run_id" || break
    sleep 1
done
rm -f backup.cnf
echo "The source is given back."
