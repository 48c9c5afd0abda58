# shellcheck shell=sh disable=SC2154
# Stop this host's server and return when it has exited. A server that does not run is not an error.
# The lab writes above this line: config pid_file

gone() { # no process, or a zombie without threads: only then are its files, locks and ports free
    case $({ cat "/proc/$1/stat"; } 2>/dev/null) in
    '') return 0 ;;
    *') Z '* | *') X '*) [ "$({ ls "/proc/$1/task"; } 2>/dev/null | wc -l)" -le 1 ] ;;
    *) return 1 ;;
    esac
}

is_ours() { # alive and still this host's server; a zombie has no command line
    { tr '\0' '\n' <"/proc/$1/cmdline"; } 2>/dev/null | grep -qxF -e "--defaults-file=$config"
}

pid=$({ cat "$pid_file"; } 2>/dev/null) || pid=
if [ -z "$pid" ] || ! is_ours "$pid"; then
    echo "not running"
    exit 0
fi

kill -TERM "$pid"
tenths=$((${LAB_STOP_TIMEOUT:-120} * 10))
until gone "$pid"; do
    if [ "$tenths" -le 0 ]; then
        echo "the server (process $pid) has not exited yet" >&2
        exit 1
    fi
    sleep 0.1
    tenths=$((tenths - 1))
done
