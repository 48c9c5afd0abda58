#!/bin/bash
# The forced command of the run's key: "check" answers, "backup" sends this run's backup. Everything else is refused.
set -u
umask 077
cd "$(dirname "$(readlink -f "$0")")" || exit 70
case ${1-} in
    check) echo dbops-ready && exit 0 ;;
    backup) ;;
    *) echo "dbops: only check and backup are allowed" >&2 && exit 64 ;;
esac
exec 9>serve.lock
flock -n 9 || { echo "dbops: this run's backup is already being sent" >&2 && exit 75; }
if [ -e shared_read ]; then # shared read: another process runs the backup and sends it to all targets
    mapfile -t from <shared_read
    exec python3 shared_read.py take "${from[@]}"
fi
[ ! -e backup.pid ] || { echo "dbops: this run has already sent its backup" >&2 && exit 75; }
widen_output
mapfile -d '' -t command <backup.argv
# in its own process group: the tool can be a script, whose children must end with it
# shellcheck disable=SC2016  # for the inner shell
setsid -- bash -c 'echo "$$ $(cut -d" " -f22 "/proc/$$/stat")" >backup.pid && cd / && exec "$@" 2>"$OLDPWD/backup.log"' \
    dbops "${command[@]}" 9>&-
status=$?
echo "$status" >backup.status.tmp && mv backup.status.tmp backup.status
tail -n 3 backup.log >&2
exit "$status"
