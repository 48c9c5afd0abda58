#!/bin/bash
# Load a finished dump into a new data directory: create an empty one, start a private server on it, and checksum, decompress
# and load the dump in one pass. Then shut the server down cleanly. log.sum has the checksum of the received data.
# The client is the owner's too, and obeys nothing but SQL: a dump has the names and comments of everyone with an account there.
# $1 data directory  $2 its device:inode  $3 run id of its marker  $4 owner  $5 client program
# $6 $7 $8 numbers of words: of the command that creates the directory, of the server's, of ssh's; then these
set -u
umask 077
datadir=$1 identity=$2 mark=$3 owner=$4 client=$5 first=$6 second=$7
shift 8
initialise=("${@:1:first}")
server=("${@:first+1:second}")
transport=("${@:first+second+1}")
must_be_new_copy "$datadir" "$identity" "$mark"
[ -z "$(find "$datadir" -mindepth 1 -maxdepth 1 ! -name lost+found ! -name '.dbops-*' -print -quit)" ] || refuse "$datadir is not empty."
no_server_on "$datadir"
become "$owner"
scratch=$(mktemp -d /tmp/dbops-load.XXXXXX) || fail "Cannot create a directory in /tmp."
chown -- "$owner" "$scratch"
trap 'rm -rf -- "$scratch"' EXIT

(exec_as_owner "${initialise[@]}" "--tmpdir=$scratch" >&2 2>&1) 2>log.initialise </dev/null ||
    fail "An empty data directory could not be created: $(tail -n 2 log.initialise | tr '\n' ' ')"
unpack_inside "$datadir" "$(mark_of "$datadir" "$mark").inside"

(
    echo "$BASHPID" >pid.server
    exec 2>log.server >&2 </dev/null
    exec_as_owner "${server[@]}" "--datadir=$datadir" "--socket=$scratch/s" "--pid-file=$scratch/pid"
) &
serving=$!
ask=("$client" --no-defaults "--socket=$scratch/s" --user=root --batch --skip-column-names)
for _ in $(seq 600); do
    kill -0 "$serving" 2>/dev/null || fail "The server that loads the dump ended: $(tail -n 3 log.server | tr '\n' ' ')"
    as_owner "${ask[@]}" -e 'SELECT 1' >/dev/null 2>&1 && break
    sleep 0.5
done
as_owner "${ask[@]}" -e 'SELECT 1' >/dev/null 2>log.load || fail "The server that loads the dump does not answer: $(tail -n 1 log.load)"

stage() { # name, command: one stage of the pipe, counted and logged under its name
    echo "$BASHPID" >"pid.$1"
    exec 2>"log.$1"
    shift
    exec "$@"
}

mkfifo seen
add_up <seen >sum 2>/dev/null &
adding=$!
stage transport "${transport[@]}" </dev/null |
    stage see tee --output-error=exit -- seen |
    stage decompress gzip -d -c |
    (
        echo "$BASHPID" >pid.load
        exec 2>log.load >/dev/null
        # shellcheck disable=SC2154  # of common.sh
        exec_as_owner "${ask[@]}" "${only_sql[@]}" --max-allowed-packet=1G
    )
stages=("${PIPESTATUS[@]}")
wait "$adding"
number=0
for name in transport see decompress load; do
    echo "${stages[$number]}" >"stage.$name"
    number=$((number + 1))
done
cut -d' ' -f1 sum >log.sum
rm -f seen sum
# a clean shutdown writes all remaining data
kill -TERM "$serving" 2>/dev/null
wait "$serving"
ended=$?
echo "$ended" >stage.server
identify_copy "$datadir" "$mark"
[ "${stages[*]} $ended" = "0 0 0 0 0" ]
