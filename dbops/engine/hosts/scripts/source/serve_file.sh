#!/bin/bash
# The forced command of a run's key for one finished backup: "check" checks it, "backup" sends it. Everything else is refused.
# backup.argv: path, bytes, run that made the backup, checksum; "low" for low priority on this host
set -u
umask 077
cd "$(dirname "$(readlink -f "$0")")" || exit 70
mapfile -d '' -t argv <backup.argv
path=${argv[0]} bytes=${argv[1]} run=${argv[2]} sum=${argv[3]}
is_there() {
    is_backup_of "$path" "$bytes" "$run" "$sum" ||
        { echo "dbops: $path is not the backup of run $run with $bytes bytes, by the record beside it" >&2 && exit 66; }
}
case ${1-} in
    check) is_there && echo dbops-ready && exit 0 ;;
    backup) is_there ;;
    *) echo "dbops: only check and backup are allowed" >&2 && exit 64 ;;
esac
if [ "${argv[4]-}" = low ]; then
    renice -n 19 -p $$ >/dev/null 2>&1
    ! command -v ionice >/dev/null || ionice -c 3 -p $$ 2>/dev/null
fi
exec 9>serve.lock
flock -n 9 || { echo "dbops: this backup is already being sent to this run" >&2 && exit 75; }
widen_output
# in its own process group, like a backup tool, so that the clean-up can end it
# shellcheck disable=SC2016  # for the inner shell
setsid -- bash -c 'echo "$$ $(cut -d" " -f22 "/proc/$$/stat")" >backup.pid && exec cat -- "$1" 2>backup.log' dbops "$path" 9>&-
status=$?
echo "$status" >backup.status.tmp && mv backup.status.tmp backup.status
tail -n 3 backup.log >&2
exit "$status"
