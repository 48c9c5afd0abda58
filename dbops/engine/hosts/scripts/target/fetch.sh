#!/bin/bash
# Fetch a finished backup into the empty data directory: checksum, decompress and unpack in one pass.
# Afterwards log.files has the files for the check, one line "NAME BASE64" each, and log.sum the checksum.
# $1 data directory  $2 its device:inode  $3 run id of its marker  $4 owner  $5 names of these files, separated by spaces
# $6 number of words of the unpack command  then the command, then ssh's words
set -u
umask 077
datadir=$1 identity=$2 mark=$3 owner=$4 words=$6
read -r -a names <<<"$5"
shift 6
unpack=("${@:1:words}")
transport=("${@:words+1}")
must_be_new_copy "$datadir" "$identity" "$mark"
[ -z "$(find "$datadir" -mindepth 1 -maxdepth 1 ! -name lost+found ! -name '.dbops-*' -print -quit)" ] || refuse "$datadir is not empty."
no_server_on "$datadir"
become "$owner"

stage() { # name, command: one stage of the pipe, counted and logged under its name
    echo "$BASHPID" >"pid.$1"
    exec 2>"log.$1"
    shift
    widen_input
    exec "$@"
}

# without space for the checksum file, no process would open the pipe and its writer would wait forever
{ : >sum; } 2>/dev/null || refuse "Files cannot be written in $PWD."
mkfifo seen
add_up <seen >sum 2>/dev/null &
adding=$!
stage transport "${transport[@]}" </dev/null |
    stage see tee --output-error=exit -- seen |
    stage decompress zstd -q -d -c |
    (
        echo "$BASHPID" >pid.unpack
        exec 2>log.unpack >&2
        widen_input
        exec_as_owner "${unpack[@]}"
    )
stages=("${PIPESTATUS[@]}")
{ : <>seen; } 2>/dev/null # so that it ends even without a writer
wait "$adding"
identify_copy "$datadir" "$mark"
number=0
for name in transport see decompress unpack; do
    echo "${stages[$number]}" >"stage.$name"
    number=$((number + 1))
done
cut -d' ' -f1 sum >log.sum
print_files "$datadir" "${names[@]}" >log.files
rm -f seen sum
[ "${stages[*]}" = "0 0 0 0" ]
