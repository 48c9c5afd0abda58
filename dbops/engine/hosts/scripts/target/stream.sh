#!/bin/bash
# Pull the backup from the source into the empty data directory, without a machine in between.
# Afterwards log.files has the files for the check, one line "NAME BASE64" each; after a failure log.tree has the remains.
# $1 data directory  $2 its device:inode  $3 run id of its marker  $4 owner  $5 names of these files, separated by spaces
# $6 number of words of the decompression command, 0 for none  $7 number of words of the unpack command
# $8 initial rate limit in bytes per second, empty for no limit  then these two commands, then ssh's words
set -u
umask 077
datadir=$1 identity=$2 mark=$3 owner=$4 expands=$6 words=$7
[ -z "$8" ] || echo "$8" >rate
read -r -a names <<<"$5"
shift 8
expand=("${@:1:expands}")
shift "$expands"
unpack=("${@:1:words}")
transport=("${@:words+1}")
must_be_new_copy "$datadir" "$identity" "$mark"
[ -z "$(find "$datadir" -mindepth 1 -maxdepth 1 ! -name lost+found ! -name '.dbops-*' -print -quit)" ] || refuse "$datadir is not empty."
no_server_on "$datadir"
become "$owner"

pull() {
    echo "$BASHPID" >pid.transport
    exec "${transport[@]}" 2>log.transport </dev/null
}

expand() {
    echo "$BASHPID" >pid.expand
    widen_input
    exec "${expand[@]}" 2>log.expand
}

unpack() {
    echo "$BASHPID" >pid.unpack
    exec 2>log.unpack >&2
    widen_input
    exec_as_owner "${unpack[@]}"
}

# Limit the stream to the file "rate" (bytes per second; empty or missing: no limit) by stopping and continuing the transport's
# reader, so that the source's tool waits as for a slow link. The transport itself is never stopped: a stopped ssh does not
# answer keepalives, and the source's sshd would disconnect. Runs in the shell without starting processes.
# $1 a pipe without a writer  $2 the file with the reader's number
brake() {
    local pid name rate limit='' began=0 base=0 now counted ahead pause turn=20 born=''
    held='' reader='' reader_born='' # not local: the trap needs them after the return
    exec 5<>"$1" >/dev/null 2>&1
    trap let_go EXIT
    trap exit TERM
    until read -r pid <pid.transport && read -r reader <"$2"; do read -r -t 0.1 -u 5; done
    while is_still "$pid" "$born"; do
        born=$birth rate=''
        is_still "$reader" "$reader_born" || break
        reader_born=$birth
        # shellcheck disable=SC2094  # a variable and a file of one name
        read -r rate <rate
        case $rate in '' | *[!0-9]* | 0)
            let_go
            limit=''
            read -r -t 1 -u 5
            continue
            ;;
        esac
        read -r now _ </proc/uptime
        now=$((10#${now%.*}${now#*.} * 10)) # milliseconds
        counted=''
        while read -r name counted; do
            [ "$name" != wchar: ] || break
        done <"/proc/$pid/io"
        [ -n "$counted" ] || break # it has just ended
        if [ "$rate" != "$limit" ]; then limit=$rate began=$now base=$counted turn=1; fi
        ahead=$(((counted - base) * 1000 / rate - (now - began))) # milliseconds
        # do not catch up for time when the link was slower
        if [ "$ahead" -lt -1000 ]; then began=$now base=$counted; fi
        # limit the debt of a burst: a long silence would look like a stall
        if [ "$ahead" -gt 20000 ]; then began=$((now + 20000)) base=$counted ahead=20000; fi
        if [ "$ahead" -gt 0 ]; then
            if [ -z "$held" ]; then
                held=1
                kill -STOP "$reader"
                # shorter turns for fast links, which bring much data in a moment
                if [ "$ahead" -gt 500 ]; then turn=$((turn / 2)); elif [ "$ahead" -lt 100 ]; then turn=$((turn * 2)); fi
                [ "$turn" -ge 1 ] || turn=1
                [ "$turn" -le 20 ] || turn=20
            fi
            [ "$ahead" -lt 500 ] || ahead=500
            printf -v pause 0.%03d "$ahead"
        else
            let_go
            printf -v pause 0.%03d "$turn"
        fi
        read -r -t "$pause" -u 5
    done
}

# Whether number $1 still belongs to the process born at $2 (empty: unknown yet); sets birth.
is_still() {
    local line
    read -r line <"/proc/$1/stat" || return 1
    # shellcheck disable=SC2086  # the words after the name; the 20th of them is when it was born
    set -- "$2" ${line##*) }
    birth=${21}
    [ -z "$1" ] || [ "$birth" = "$1" ]
}

let_go() {
    if [ -n "$held" ] && is_still "$reader" "$reader_born"; then kill -CONT "$reader"; fi
    held=''
}

mkfifo nothing
reads=pid.expand
[ "$expands" != 0 ] || reads=pid.unpack
brake nothing "$reads" </dev/null &
braking=$!
if [ "$expands" = 0 ]; then
    pull | unpack
    two=("${PIPESTATUS[@]}")
    stages=("${two[0]}" 0 "${two[1]}")
else
    pull | expand | unpack
    stages=("${PIPESTATUS[@]}")
fi
kill "$braking" 2>/dev/null
wait "$braking" 2>/dev/null
rm -f nothing
identify_copy "$datadir" "$mark"
# The counters of /proc were last read at the last query, which can be long ago.
size=$(as_owner du -sb --exclude='.dbops-*' --exclude=lost+found -- "$datadir" | cut -f1)
seen=0
[ ! -e counter.unpack ] || read -r seen _ <counter.unpack
[ "${seen:-0}" -ge "${size:-0}" ] || echo "$size $size" >counter.unpack
echo "${stages[0]}" >stage.transport
[ "$expands" = 0 ] || echo "${stages[1]}" >stage.expand
echo "${stages[2]}" >stage.unpack
print_files "$datadir" "${names[@]}" >log.files
[ "${stages[*]}" = "0 0 0" ] && exit
tree_of "$datadir" >log.tree
exit 1
