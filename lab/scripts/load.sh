# shellcheck shell=sh disable=SC2154,SC3045
# Keep sysbench running for a time: load.sh SECONDS COMMAND...
# sysbench 1.0 crashes when the server closes its connection, so a restart of the primary would end the load.
ulimit -c 0
ends=$(($(date +%s) + $1))
shift
child=
ended=
trap 'ended=1; [ -z "$child" ] || kill "$child" 2>/dev/null' TERM INT HUP

while [ -z "$ended" ] && left=$((ends - $(date +%s))) && [ "$left" -gt 0 ]; do
    "$@" "--time=$left" run &
    child=$!
    wait "$child"
    child=
    [ -n "$ended" ] || sleep 1
done
