#!/bin/bash
# The dead-man switch on the source. Independent of dbops: when the run is released or its heartbeat stops, end the
# backup, resume replication if we paused it, and remove the key and the credentials.
#
# $1 run id  $2 authorized_keys file or empty  $3 SSH user  $4 client program  $5 socket  $6 statement that resumes
# $7 maximum seconds without heartbeat while replication is paused  $8 the same while it is not
set -u
umask 077
run_id=$1 keys=$(keys_file "$2" "$3") client=$4 socket=$5 resume=$6 patience_paused=$7 patience_idle=$8
cd "$DBOPS_RUN_DIR" || exit 70
rm -f release given_back
touch heartbeat
write_pid $$ guard.pid

read_silence() { # sets silence to the seconds since the last heartbeat
    local beat
    silence=0
    beat=$(stat -c %Y heartbeat) || return 0
    printf -v silence '%(%s)T' -1
    silence=$((silence - beat))
}

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
    read_silence
    if [ "$silence" -gt "$patience" ]; then
        echo "no heartbeat for $silence s" >given_back
        echo "No heartbeat for $silence s: releasing the source."
        break
    fi
    sleep 0.5
done
end_backup
revoke_key "$keys" "$run_id"
until resume_replication "$client" "$DBOPS_JOB_DIR/admin.cnf" "$socket" "$resume"; do sleep 1; done
for _ in $(seq 60); do # retry on a full disk or a concurrent change of the file; the key also expires automatically
    ! revoke_key "$keys" "$run_id" || break
    sleep 1
done
rm -f backup.cnf tool.cnf
echo "The source is released."
