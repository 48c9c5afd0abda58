#!/bin/bash
# The forced command of the run's key: "check" answers, "backup" sends one backup of this run. Nothing else is done.
set -u
umask 077
cd "$(dirname "$(readlink -f "$0")")" || exit 70
case ${1-} in
    check) echo dbops-ready && exit 0 ;;
    backup) ;;
    *) echo "dbops: only check and backup are allowed" >&2 && exit 64 ;;
esac
exec 9>serve.lock
flock -n 9 || { echo "dbops: a backup of this run is being sent already" >&2 && exit 75; }
if [ -e fan_out ]; then # one read for several targets: another process runs the backup and sends it to all
    mapfile -t from <fan_out
    exec python3 fan_out.py take "${from[@]}"
fi
[ ! -e backup.pid ] || { echo "dbops: this run has sent its backup already" >&2 && exit 75; }
mkdir -p target lsn
widen_output
mapfile -d '' -t command <backup.argv
# in a group of its own: the tool may be a script, and what it started is ended with it
# shellcheck disable=SC2016  # for the inner shell
setsid -- bash -c 'echo "$$ $(cut -d" " -f22 "/proc/$$/stat")" >backup.pid && cd / && exec "$@" 2>"$OLDPWD/backup.log"' \
    dbops "${command[@]}" 9>&-
status=$?
echo "$status" >backup.status.tmp && mv backup.status.tmp backup.status
tail -n 3 backup.log >&2
exit "$status"
