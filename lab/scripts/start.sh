# shellcheck shell=sh disable=SC2154
# Starts this host's server and returns when it answers. Options for the server may follow.
# Above this line the lab writes: server admin config socket pid_file server_log error_log owner

alive() { # the process exists and is no zombie
    case $({ cat "/proc/$1/stat"; } 2>/dev/null) in
    '' | *') Z '* | *') X '*) return 1 ;;
    esac
}

is_ours() { # the number may have been given to another program since
    [ -n "$1" ] && alive "$1" && { tr '\0' '\n' <"/proc/$1/cmdline"; } 2>/dev/null | grep -qxF -e "--defaults-file=$config"
}

answers() { "$admin" --no-defaults --socket="$socket" --connect-timeout=2 ping >/dev/null 2>&1; }

exec 9>"$pid_file.lock"
flock 9 # two starts at once would overwrite each other's process number

pid=$({ cat "$pid_file"; } 2>/dev/null) || pid=
if is_ours "$pid"; then
    echo "already running as process $pid"
else
    cd /
    : >"$server_log"
    # a session of its own, and no descriptor of the caller: an SSH command that runs this must come back,
    # and a lock that the caller holds must not live on in the server
    setsid "$server" "--defaults-file=$config" "$@" \
        </dev/null >>"$server_log" 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- &
    pid=$!
    echo "$pid" >"$pid_file"
    [ -z "$owner" ] || chown "$owner" "$pid_file" # the server writes its number there too
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
    echo "the server ended while starting" >&2
fi
tail -n 20 "$server_log" "$error_log" >&2
exit 1
