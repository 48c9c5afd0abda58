#!/bin/bash
# The forced command of a load test's key on the host of its load generator: "check" answers, "fill" and "round-N" run the generator and
# carry its connections (load_relay.py). Everything else is refused. After common.sh, scratch.sh, scratch_server.sh, load_test_limits.sh,
# tunnel.sh and measure.sh.
# backup.argv: id of the load test, cores, memory limit of the generator in bytes. The working directory has load.commands: one command
# line each, its fields separated by 0x1f, the first one its word; load.lua, load_relay.py and, for some loads, load.input.
# However this ends, the generator ends and its directory is removed: the kernel ends the generator with its relay.
# shellcheck disable=SC2034,SC2154  # for the sourced functions, and theirs
set -u
umask 077
cd "$(dirname "$(readlink -f "$0")")" || exit 70
scratch_kind=load-generator
mapfile -d '' -t argv <backup.argv
id=${argv[0]} generator_cores=${argv[1]} memory=${argv[2]} server_cores=0
must_be_scratch_id "$id"
sockets=$(sockets_of "$id")

check_generator_host() {
    local free
    command -v sysbench >/dev/null || refuse "tool sysbench is not installed on the load generator's host."
    free=$(($(sed -n 's/^MemAvailable: *\([0-9]*\).*/\1/p' /proc/meminfo) * 1024))
    [ "$free" -ge "$memory" ] ||
        refuse "memory $((free / 1048576)) MiB of memory are free on the load generator's host, but $((memory / 1048576)) MiB are needed."
}

as_owner=()
[ "$(id -u)" != 0 ] || become 65534:65534
case ${1-} in
    check)
        find_python
        check_generator_host
        echo dbops-ready
        exit 0
        ;;
    fill | round-[1-9]*) ;;
    *) echo "dbops: only check, fill and rounds are allowed" >&2 && exit 64 ;;
esac
words=()
while IFS=$'\x1f' read -r -a fields; do
    [ "${fields[0]-}" != "$1" ] || words=("${fields[@]:1}")
done <load.commands
[ "${#words[@]}" -gt 0 ] || { echo "dbops: this load test has no $1" >&2 && exit 64; }
exec 9>serve.lock
flock -w 10 9 || { echo "dbops: the load generator of this test already runs" >&2 && exit 75; }
exec 8>&1 1>&2 # what is said is no frame
lower_priority
choose_cores
ulimit -S -v "$((memory / 1024 + 2097152))" || fail "memory The limit of memory cannot be set."
ulimit -n "$(ulimit -Hn)" 2>/dev/null
find_python
trap 'remove_scratch "$PWD" "$id"' EXIT
remove_scratch "$PWD" "$id" || fail "space $sockets cannot be removed."
{ mkdir -m 0711 -- "$sockets" && mkdir -m 0700 -- "$sockets/run"; } || fail "space $sockets cannot be made."
[ ${#as_owner[@]} -eq 0 ] || chown -h -- 65534:65534 "$sockets/run" || fail "space $sockets cannot be given to the load generator."
place_generator "$sockets/load"
input=/dev/null
[ ! -f load.input ] || input=load.input
relay=$(cat load_relay.py)
# in its own process group, so that the clean-up can end it; without the lock, which ends with this shell
# shellcheck disable=SC2016  # for the inner shell
setsid -- bash -c 'echo "$$ $(cut -d" " -f22 "/proc/$$/stat")" >backup.pid && cd / && exec "$@"' dbops \
    ${generator_list:+taskset -c "$generator_list"} ${as_owner[@]+"${as_owner[@]}"} "$python" -c "$relay" generator "$sockets/run/s" "${words[@]}" \
    1>&8 8>&- 9>&- 3<"$input"
