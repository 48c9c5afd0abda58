#!/bin/sh
# Run detached, journaled jobs on a host. Sent with each call as `sh -c`; prints one answer on standard output.
#
#   launcher.sh VERB WORK_DIR INSTANCE RUN TOKEN DASHBOARD [...]
#     start  NAME LOCK ARGUMENT...        standard input: lines "FILE BASE64", then "end"
#     follow NAME CENTISECONDS LINES      wait for the end, then print the state
#     stop   NAME CENTISECONDS LINES      SIGINT, then SIGKILL after the patience
#     read   NAME LOG OFFSET LIMIT
#     act    SCRIPT ARGUMENT...           standard input goes to the script
#
# Descriptors: 7 the job's life (jobs/NAME/alive), 8 the lock of one instance's fence, 9 the instance's lock.LOCK.
# A job and its children inherit 7 and 9 and hold them while any of them is alive. Start a program that must survive its
# job with `7>&- 9>&-`.
set -u
umask 077
PATH=${PATH:-/usr/bin:/bin}:/usr/local/sbin:/usr/sbin:/sbin
LC_ALL=C
# a login file (~/.mylogin.cnf) would send MySQL's clients to another server; they read it even with --defaults-file
# (below a file, a path names nothing, whatever people make)
MYSQL_TEST_LOGIN_FILE=/dev/null/none
export PATH LC_ALL MYSQL_TEST_LOGIN_FILE
unset LIBMYSQL_ENABLE_CLEARTEXT_PLUGIN MYSQL_HOST MYSQL_TCP_PORT MYSQL_UNIX_PORT MYSQL_PWD MYSQL_GROUP_SUFFIX LIBMYSQL_PLUGINS LIBMYSQL_PLUGIN_DIR \
    MARIADB_PLUGIN_DIR

verb=$1 work=$2 instance=$2/instances/$3 run=$2/rebuilds/$4 run_id=$4 token=$5 dashboard=$6
shift 6
# How long a run of another dashboard counts as alive without a job or a command. Drivers show themselves more often.
alive_minutes=2

say() { printf '%s\n' "$*"; }

give_up() { # code, text
    say "dbops:error $1 $2"
    exit 0
}

now() { # sets $ticks: hundredths of a second on the monotonic clock
    read -r ticks _ </proc/uptime
    ticks=${ticks%.*}${ticks#*.}
}

is_plain() { # names that are printed unquoted
    case $1 in '' | *[!A-Za-z0-9._-]*) return 1 ;; esac
}

allow_plugins() { # of this run's clients
    [ ! -d "$run/plugins" ] || return 0
    rm -rf "$run/plugins.new"
    if ! link_installed_plugins "$run/plugins.new" || ! mv -T "$run/plugins.new" "$run/plugins"; then
        give_up host.start_failed "cannot create $run/plugins"
    fi
}

enter() { # take the fence's lock, then refuse a driver older than the newest one seen
    must_be_ours
    if [ ! -d "$instance" ] || [ ! -d "$run/jobs" ]; then
        mkdir -p "$instance" "$run/jobs" || give_up host.start_failed "cannot create $work"
    fi
    exec 8>"$instance/guard"
    flock -w 10 8 || give_up host.guarded "another command of this instance is under way"
    refuse_beside_another_dashboard
    stored=0
    if [ -e "$instance/fence" ]; then
        read -r stored <"$instance/fence"
        case $stored in '' | *[!0-9]*) give_up host.fence_damaged "$instance/fence" ;; esac
    fi
    # the same token is the same driver, whose connection may have been cut between storing the token and starting
    [ "$token" -ge "$stored" ] || give_up host.fenced "$stored"
    [ "$token" -eq "$stored" ] || store_token || give_up host.start_failed "cannot write $instance/fence"
    store_owner
    allow_plugins
}

# Refuse a work directory in which another account can write or which it can exchange: root runs the scripts in it.
must_be_ours() {
    read_account
    if [ "$account" = 0 ]; then
        found=$(exchangeable_at "$work")
    else
        found=$(find -H "$work" -maxdepth 0 \( ! -uid "$account" -o -perm -002 -o -perm -020 \) -print 2>/dev/null)
    fi
    [ -z "$found" ] || give_up host.work_directory "$found"
}

read_account() { # sets account to the number of the account that we act as
    account=''
    while read -r label _ account _; do
        [ "$label" != Uid: ] || break
        account=''
    done 2>/dev/null </proc/self/status
    [ -n "$account" ] || account=$(id -u)
}

# Tokens of two dashboards cannot be compared: the later start would fence the earlier run while it works.
refuse_beside_another_dashboard() {
    owner_run='' owner=''
    [ -e "$instance/owner" ] && read -r owner_run owner <"$instance/owner"
    is_plain "$owner_run" && is_plain "$owner" && [ "$owner" != "$dashboard" ] || return 0
    has_live_job "$work/rebuilds/$owner_run" || is_recent || return 0
    give_up host.other_dashboard "run $owner_run of dashboard $owner"
}

is_recent() { [ -n "$(find "$instance/owner" -mmin "-$alive_minutes")" ]; }

has_live_job() { # run directory
    for life in "$1"/jobs/*/alive; do
        [ ! -e "$life" ] || flock -s -n "$life" true || return 0
    done
    return 1
}

store_owner() { # also shows that this run is alive; on a full disk the old name stays
    if [ "$owner_run $owner" = "$run_id $dashboard" ]; then
        printf '%s %s\n' "$run_id" "$dashboard" 1<>"$instance/owner"
    else
        { printf '%s %s\n' "$run_id" "$dashboard" >"$instance/owner.new"; } 2>/dev/null &&
            mv -f "$instance/owner.new" "$instance/owner" && return
        rm -f "$instance/owner.new"
    fi
}

# On a full disk a new file cannot be written, but a clean-up must still work: overwrite the old token in place. Tokens only
# grow, so no part of the old one remains; read the result back.
store_token() {
    { printf '%s\n' "$token" >"$instance/fence.new"; } 2>/dev/null && mv -f "$instance/fence.new" "$instance/fence" && return
    rm -f "$instance/fence.new"
    [ -s "$instance/fence" ] && printf '%s\n' "$token" 1<>"$instance/fence" || return 1
    read -r stored <"$instance/fence"
    [ "$stored" = "$token" ]
}

read_process() { # sets $session and $start (in ticks since boot) of process $1; false if it has exited
    line=
    { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
    # shellcheck disable=SC2086  # the words after the name, which may hold spaces and brackets itself
    set -- ${line##*) }
    [ $# -ge 20 ] || return 1
    [ "$1" != Z ] || return 1 # a zombie
    session=$4 start=${20}
}

load_job() { # sets the journal's values of the started process; false if none was started
    [ -e "$job/pid" ] || return 1
    read -r pid pid_start pid_boot started_at <"$job/pid"
}

leader_lives() {
    read -r boot </proc/sys/kernel/random/boot_id
    [ "$boot" = "$pid_boot" ] && read_process "$pid" && [ "$start" = "$pid_start" ]
}

is_let_go() { # whether no process of the job is alive; a shared lock, so that two callers do not see each other
    flock -s -n "$job/alive" true
}

forget_secrets() {
    [ -e "$job/secrets" ] || return 0
    while read -r name; do rm -f "$job/$name"; done <"$job/secrets"
    rm -f "$job/secrets"
}

find_status() {
    if [ -e "$job/rc" ]; then
        status=ended
    elif leader_lives; then
        status=running
    elif ! is_let_go; then
        status=running
    elif [ -e "$job/rc" ]; then # again: it can appear between the first check and the lock
        status=ended
    else
        status=vanished
    fi
}

count() { # bytes of the job's processes; keep the last values for exited processes
    for file in "$job"/pid.*; do
        counted=
        { read -r counted <"$file"; } 2>/dev/null || continue
        case $counted in '' | *[!0-9]*) continue ;; esac
        read_process "$counted" || continue
        [ "$session" = "$pid" ] || continue
        got='' put='' disk=''
        {
            while read -r label value; do
                case $label in
                rchar:) got=$value ;;
                wchar:) put=$value ;;
                read_bytes: | write_bytes:) disk="$disk $value" ;; # at the disk, in the kernel's order
                esac
            done <"/proc/$counted/io"
        } 2>/dev/null
        [ -n "$put" ] && printf '%s %s%s\n' "$got" "$put" "$disk" >"$job/counter.${file##*/pid.}"
    done
}

report() { # lines of each log
    say "dbops:state $status"
    [ "$status" = absent ] && say dbops:end && exit 0
    say "started $started_at"
    if [ "$status" = ended ]; then
        read -r rc ended_at <"$job/rc"
        say "rc $rc"
        say "ended $ended_at"
    elif [ "$status" = vanished ]; then
        forget_secrets
    fi
    for file in "$job"/stage.* "$job"/counter.* "$job"/log.*; do
        name=${file##*/} && kind=${name%%.*} && name=${name#*.}
        [ -f "$file" ] || continue
        is_plain "$name" || continue
        if [ "$kind" = log ]; then
            [ -s "$file" ] || continue # start no process for an empty log
            printf 'tail %s ' "$name"
            tail -n "$1" "$file" | tail -c 16384 | base64 -w 0
            echo
        else
            value=
            read -r value <"$file"
            [ -n "$value" ] && say "$kind $name $value"
        fi
    done
    say dbops:end
    exit 0
}

report_absent() {
    status=absent
    report 0
}

receive() { # files of a job; false if the request was truncated
    while read -r name data; do
        [ "$name" = end ] && return 0
        case $name in script | wrapper) ;; *) printf '%s\n' "$name" >>"$job/secrets" ;; esac
        printf '%s' "$data" | base64 -d >"$job/$name" || return 1
    done
    return 1
}

scope_name() { # of a job where systemd can give one, else nothing
    [ "$account" = 0 ] && [ -d /run/systemd/system ] && command -v systemd-run >/dev/null || return 0
    say "dbops-$dashboard-$run_id-$job_name.scope"
}

launch() {
    # Job control gives the job its own process group, so that setsid forks, and does not ignore SIGINT: a plain `&` would
    # make the whole job ignore it, and SIGINT is the only signal that ends mariadb-backup cleanly.
    # `&` applies only to one program: a background list is another shell, which would keep our output and lock open.
    # A scope and not a service: the job inherits its locks, and a server that it starts is not ended with the job. Outside the
    # unit of sshd and of the login it outlives both. A server that it starts may need more tasks than a scope has by default. An
    # out-of-memory kill of one process must not end its wrapper, but systemd before 252 does not know this property for scopes, and
    # before 227 not the other one. systemd-run starts nothing if it fails.
    # shellcheck disable=SC2016  # for the inner shell
    bash -c 'set -m; cd "$0" || exit
        scope=$1; shift
        for properties in ${scope:+"-p TasksMax=infinity -p OOMPolicy=continue" "-p TasksMax=infinity" ""}; do
            SYSTEMD_BUS_TIMEOUT=5s systemd-run --scope --quiet --unit="$scope" --description="Job of dbops" $properties \
                -- setsid "$@" </dev/null >log.out 2>&1 8>&- &
            wait "$!" && exit
        done
        [ -z "$scope" ] || echo "NOTE: This job has no scope of systemd." >>log.out
        setsid "$@" </dev/null >>log.out 2>&1 8>&- &' "$job" "$(scope_name)" \
        env -i PATH="$PATH" HOME="${HOME:-/}" LC_ALL=C MYSQL_TEST_LOGIN_FILE=/dev/null/none DBOPS_JOB_DIR="$job" DBOPS_RUN_DIR="$run" bash ./wrapper "$@"
    attempts=0
    until [ -e "$job/pid" ]; do
        attempts=$((attempts + 1))
        [ "$attempts" -le 500 ] || give_up host.start_failed "no sign of life of $job after 5 s"
        sleep 0.01
    done
}

start_job() { # name, lock, arguments
    job=$run/jobs/$1 job_name=$1 lock=$instance/lock.$2 lock_name=$2
    shift 2
    for program in flock setsid bash base64; do
        command -v "$program" >/dev/null || give_up host.tool_missing "$program"
    done
    enter
    if ! load_job; then
        exec 9>"$lock"
        flock -w 2 9 || load_job || give_up host.busy "the lock $lock_name is held by another job"
    fi
    if ! load_job; then
        # no job of this name was started; the remains of an interrupted launcher are not alive
        [ ! -e "$job/alive" ] || flock -n "$job/alive" true || give_up host.busy "the job is just starting"
        rm -rf "$job"
        mkdir "$job" || give_up host.start_failed "cannot create $job"
        exec 7>"$job/alive"
        flock -n 7
        if ! receive; then
            rm -rf "$job"
            give_up host.start_failed "the request was truncated, or the disk is full"
        fi
        launch "$@"
        load_job
    fi
    find_status
    count
    report 20
}

follow_job() { # name, hundredths of a second, lines
    job=$run/jobs/$1
    load_job || report_absent
    now
    deadline=$((ticks + $2))
    while find_status && count && [ "$status" = running ] && now && [ "$ticks" -lt "$deadline" ]; do
        # Like a sleep, but ends immediately when the job ends: with a sleep, each of a rebuild's six jobs would end half a sleep
        # late. Not for the whole wait, because the bytes of processes are counted before they exit. Status 1 is the end of the wait;
        # other statuses must not make this loop spin.
        left=$((deadline - ticks))
        [ "$left" -lt 40 ] || left=40
        [ "$left" -ge 10 ] || left=0$left
        flock -s -w "0.$left" "$job/alive" true 2>/dev/null
        [ $? -le 1 ] || sleep 0.1
    done
    report "$3"
}

signal_session() { # signal, "spare" to exclude the wrapper; false if no process was left
    found=1
    for file in /proc/[0-9]*/stat; do
        one=${file#/proc/} && one=${one%/stat}
        [ "$one" = "$pid" ] && [ "$2" = spare ] && continue
        read_process "$one" || continue
        [ "$session" = "$pid" ] || continue
        [ "$start" -ge "$pid_start" ] || continue
        kill -s "$1" "$one" 2>/dev/null && found=0
    done
    return "$found"
}

end_session() { # patience; only processes of the session that we started, and only while the job holds its lock
    leader_lives || { ! is_let_go && ! read_process "$pid"; } || return 0
    asked=no # a new job may not have forked yet
    now
    deadline=$((ticks + $1))
    until is_let_go; do
        [ "$asked" = yes ] || ! signal_session INT spare || asked=yes
        now
        [ "$ticks" -ge "$deadline" ] && break
        sleep 0.05
    done
    # the wrapper last, so that it can write the exit status and remove the secrets
    passes=0
    while ! is_let_go && [ "$passes" -lt 40 ]; do
        signal_session KILL spare || [ "$passes" -lt 20 ] || signal_session KILL all
        passes=$((passes + 1))
        sleep 0.05
    done
}

stop_job() { # name, hundredths of a second, lines
    job=$run/jobs/$1
    enter
    load_job || report_absent
    read -r boot </proc/sys/kernel/random/boot_id
    [ "$boot" = "$pid_boot" ] && end_session "$2"
    find_status
    report "$3"
}

read_log() { # name, log, offset, limit
    say dbops:bytes
    if [ -f "$run/jobs/$1/log.$2" ]; then
        tail -c "+$(($3 + 1))" "$run/jobs/$1/log.$2" | head -c "$4" | base64 -w 0
        echo
    fi
    say dbops:end
}

act() { # script, arguments; hold the lock until the end, so that no newer driver starts in between
    enter
    cd "$run" || give_up host.start_failed "cannot enter $run"
    script=$1
    shift
    DBOPS_RUN_DIR=$run
    export DBOPS_RUN_DIR
    say dbops:act
    sh -c "$script" dbops "$@" 8>&-
    exit $?
}

case $verb in
start) start_job "$@" ;;
follow) follow_job "$@" ;;
stop) stop_job "$@" ;;
read) read_log "$@" ;;
act) act "$@" ;;
*) give_up host.start_failed "no such verb: $verb" ;;
esac
