# shellcheck shell=sh disable=SC2154
# Start this host's server and return when it answers. Arguments are options for the server.
# The lab writes above this line: server admin config socket pid_file server_log error_log owner

alive() { # the process exists and is not a zombie
    case $({ cat "/proc/$1/stat"; } 2>/dev/null) in
    '' | *') Z '* | *') X '*) return 1 ;;
    esac
}

is_ours() { # another program may have got the number later
    [ -n "$1" ] && alive "$1" && { tr '\0' '\n' <"/proc/$1/cmdline"; } 2>/dev/null | grep -qxF -e "--defaults-file=$config"
}

answers() { "$admin" --no-defaults --socket="$socket" --connect-timeout=2 ping >/dev/null 2>&1; }

exec 9>"$pid_file.lock"
flock 9 # two concurrent starts would overwrite each other's process number

pid=$({ cat "$pid_file"; } 2>/dev/null) || pid=
if is_ours "$pid"; then
    echo "already running as process $pid"
else
    cd /
    : >"$server_log"
    # The server writes its number there too, as its own user, and perhaps before the line with echo below does.
    : >"$pid_file"
    [ -z "$owner" ] || chown "$owner" "$pid_file"
    # its own session and no descriptors of the caller: an SSH command that runs this must return,
    # and the server must not keep a lock of the caller
    setsid "$server" "--defaults-file=$config" "$@" \
        </dev/null >>"$server_log" 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- &
    pid=$!
    echo "$pid" >"$pid_file"
fi

tenths=$((${LAB_START_TIMEOUT:-60} * 10))
while alive "$pid" && [ "$tenths" -gt 0 ]; do
    if answers; then
        exit 0
    fi
    sleep 0.1
    tenths=$((tenths - 1))
done

if alive "$pid"; then
    echo "the server (process $pid) runs but does not answer on $socket yet" >&2
else
    echo "the server exited during its start" >&2
fi
tail -n 20 "$server_log" "$error_log" >&2
exit 1
