#!/bin/bash
# Clone a running MySQL server into a new data directory. Create an empty one and start a private server on it, which connects
# to the donor and takes its data. Without a service manager, the server then ends (error 3707: "start me"), and a second
# private start completes the clone. That server also removes the donor's settings before they can take effect. log.outcome
# has the server's own result of the clone.
#
# $1 data directory  $2 its device:inode  $3 run id of its marker  $4 owner  $5 client program
# $6 statements that remove the donor's settings
# $7 $8 $9 numbers of words: of the command that creates the directory, of the server's, of the first start only; then these
# Also: clone.sql with the password of the run's account, and admin.cnf (both 0600, removed when the job ends)
set -u
umask 077
datadir=$1 identity=$2 mark=$3 owner=$4 client=$5 tidy=$6 first=$7 second=$8 third=$9
shift 9
initialise=("${@:1:first}")
server=("${@:first+1:second}")
cloning=("${@:first+second+1:third}")
must_be_new_copy "$datadir" "$identity" "$mark"
[ -z "$(find "$datadir" -mindepth 1 -maxdepth 1 ! -name lost+found ! -name '.dbops-*' -print -quit)" ] || refuse "$datadir is not empty."
no_server_on "$datadir"
become "$owner"
scratch=$(mktemp -d /tmp/dbops-clone.XXXXXX) || fail "Cannot create a directory in /tmp."
chown -- "$owner" "$scratch"
serving=
trap 'keep_log; [ -z "$serving" ] || kill -KILL "$serving" 2>/dev/null; rm -rf -- "$scratch"' EXIT

keep_log() { # copy the servers' logs to the driver's place: the servers run as another user and log elsewhere
    # as that user, which could put a link in the log's place
    as_owner tail -n 200 "$scratch/errors.log" >log.server 2>/dev/null
}

serve() { # options for this start only
    (
        echo "$BASHPID" >pid.server
        exec </dev/null >/dev/null 2>&1
        exec_as_owner "${server[@]}" "--datadir=$datadir" "--socket=$scratch/s" "--pid-file=$scratch/pid" \
            "--log-error=$scratch/errors.log" "$@"
    ) &
    serving=$!
}

said_error() { # the server's last errors; a full disk first, which it names once, before its consequences
    as_owner grep -F '[ERROR]' "$scratch/errors.log" >log.errors
    { grep -m 1 -E 'No space left on device|OS errno 28|error number 28|Disk is full|Disk quota exceeded' log.errors ||
        tail -n 3 log.errors; } | cut -c 1-500 | tr '\n' ' '
}

answers() { # query command: wait while the server is alive; the driver ends this job on a stall
    until "$@" -e 'SELECT 1' >/dev/null 2>log.ask; do
        kill -0 "$serving" 2>/dev/null || fail "The server on the new data ended: $(said_error)"
        ! grep -q 'ERROR 1045 ' log.ask || fail "The admin account cannot log in to the copied data: $(tail -n 1 log.ask)"
        sleep 0.2
    done
    rm -f log.ask
}

(exec_as_owner "${initialise[@]}" "--tmpdir=$scratch" >&2 2>&1) 2>log.initialise </dev/null ||
    fail "An empty data directory could not be created: $(tail -n 2 log.initialise | tr '\n' ' ')"
unpack_inside "$datadir" "$(mark_of "$datadir" "$mark").inside"

serve "${cloning[@]}"
ask=(as_owner "$client" --no-defaults "--socket=$scratch/s" --user=root --local-infile=0 --batch --skip-column-names)
answers "${ask[@]}"
stages='SELECT STAGE, STATE, ESTIMATE, DATA FROM performance_schema.clone_progress'
"${ask[@]}" <clone.sql >/dev/null 2>log.clone &
copying=$!
while kill -0 "$copying" 2>/dev/null; do
    if "${ask[@]}" -e "$stages" >progress.new 2>/dev/null && [ -s progress.new ]; then mv -f progress.new log.progress; fi
    sleep 0.5
done
wait "$copying"
status=$?
rm -f progress.new
case $(cat log.clone) in *'ERROR 3707 '*) status=0 ;; esac # complete; the server asks for a restart
echo "$status" >stage.clone
[ "$status" = 0 ] || fail "$(grep -v '^$' log.clone | tail -n 1)"
wait "$serving"

echo "restart" >log.phase
serve
ask=("$client" "--defaults-file=$DBOPS_JOB_DIR/admin.cnf" --local-infile=0 "--socket=$scratch/s" --batch --skip-column-names)
answers "${ask[@]}"
query="SELECT CONCAT('state=', IFNULL(STATE, ''), '\\nerror=', IFNULL(ERROR_NO, ''), '\\nmessage=', REPLACE(IFNULL(ERROR_MESSAGE, ''), '\\n', ' '),
    '\\ngtid=', REPLACE(@@GLOBAL.gtid_executed, '\\n', '')) FROM performance_schema.clone_status ORDER BY ID DESC LIMIT 1"
"${ask[@]}" --raw -e "$query" >log.outcome 2>log.ask || fail "The server does not report the clone's result: $(tail -n 1 log.ask)"
"${ask[@]}" -e "$stages" >log.progress 2>/dev/null
"${ask[@]}" -e "$tidy" >/dev/null 2>log.ask || fail "The donor's settings could not be removed: $(tail -n 1 log.ask)"
rm -f log.ask
# a clean shutdown writes all remaining data
kill -TERM "$serving" 2>/dev/null
wait "$serving"
ended=$?
serving=
echo "$ended" >stage.server
identify_copy "$datadir" "$mark"
[ "$ended" = 0 ]
