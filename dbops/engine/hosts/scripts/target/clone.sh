#!/bin/bash
# Clone a running MySQL server into a new data directory. An empty one is made, and a server that nobody else reaches is started on it: it
# dials out to the donor and takes its data. Where no service manager watches over it, it then ends itself (error 3707: "start me"), and a
# second start, as private as the first, completes the clone. What the copy must not keep of the donor is taken out there, before anything
# of it could act. log.outcome has what the server itself says of the clone.
#
# $1 data directory  $2 its device:inode  $3 run id of its mark  $4 owner  $5 client program
# $6 statements that take out what belongs to the donor
# $7 $8 $9 words of: the command that makes the directory, the server's, those that only the first start has; then these
# Beside it: clone.sql, which has the password of the run's account, and admin.cnf (both 0600, removed when the job ends)
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
as_owner=()
[ "$(id -un)" = "$owner" ] || as_owner=(setpriv "--reuid=$owner" "--regid=$(id -gn -- "$owner")" --init-groups)
scratch=$(mktemp -d /tmp/dbops-clone.XXXXXX) || fail "No directory can be made in /tmp."
chown -- "$owner" "$scratch"
serving=
trap 'keep_log; [ -z "$serving" ] || kill -KILL "$serving" 2>/dev/null; rm -rf -- "$scratch"' EXIT

keep_log() { # what the servers wrote, where the driver finds it: they run as another user, and their option file names another place
    tail -n 200 "$scratch/errors.log" >log.server 2>/dev/null
}

serve() { # options of this start alone
    (
        echo "$BASHPID" >pid.server
        exec </dev/null >/dev/null 2>&1
        cd / && exec "${as_owner[@]}" "${server[@]}" "--datadir=$datadir" "--socket=$scratch/s" "--pid-file=$scratch/pid" \
            "--log-error=$scratch/errors.log" "$@"
    ) &
    serving=$!
}

answers() { # command that asks: wait for as long as the server lives; the driver ends us when nothing moves
    until "$@" -e 'SELECT 1' >/dev/null 2>log.ask; do
        kill -0 "$serving" 2>/dev/null || fail "The server on the new data ended: $(grep -F '[ERROR]' "$scratch/errors.log" | tail -n 3 | tr '\n' ' ')"
        ! grep -q 'ERROR 1045 ' log.ask || fail "The copied data does not let the admin account in: $(tail -n 1 log.ask)"
        sleep 0.2
    done
    rm -f log.ask
}

(cd / && exec "${as_owner[@]}" "${initialise[@]}" >&2 2>&1) 2>log.initialise </dev/null ||
    fail "An empty data directory could not be made: $(tail -n 2 log.initialise | tr '\n' ' ')"

serve "${cloning[@]}"
ask=("$client" --no-defaults "--socket=$scratch/s" --user=root --batch --skip-column-names)
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
case $(cat log.clone) in *'ERROR 3707 '*) status=0 ;; esac # it has the data, and says "start me"
echo "$status" >stage.clone
[ "$status" = 0 ] || fail "$(grep -v '^$' log.clone | tail -n 1)"
wait "$serving"

echo "restart" >log.phase
serve
ask=("$client" "--defaults-file=$DBOPS_JOB_DIR/admin.cnf" "--socket=$scratch/s" --batch --skip-column-names)
answers "${ask[@]}"
told="SELECT CONCAT('state=', IFNULL(STATE, ''), '\\nerror=', IFNULL(ERROR_NO, ''), '\\nmessage=', REPLACE(IFNULL(ERROR_MESSAGE, ''), '\\n', ' '),
    '\\ngtid=', REPLACE(@@GLOBAL.gtid_executed, '\\n', '')) FROM performance_schema.clone_status ORDER BY ID DESC LIMIT 1"
"${ask[@]}" --raw -e "$told" >log.outcome 2>log.ask || fail "The server does not say how the clone ended: $(tail -n 1 log.ask)"
"${ask[@]}" -e "$stages" >log.progress 2>/dev/null
"${ask[@]}" -e "$tidy" >/dev/null 2>log.ask || fail "What belongs to the donor could not be taken out: $(tail -n 1 log.ask)"
rm -f log.ask
# in good order: what it has not written yet is written now
kill -TERM "$serving" 2>/dev/null
wait "$serving"
ended=$?
serving=
echo "$ended" >stage.server
stat -c %i -- "$datadir/ibdata1" 2>/dev/null >"$(mark_of "$datadir" "$mark")" # whose data this is, from here on
[ "$ended" = 0 ]
