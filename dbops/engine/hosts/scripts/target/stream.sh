#!/bin/bash
# Pull the backup from the source into the empty data directory. The data passes through nobody else's machine.
# Afterwards log.files holds the small files that prove what arrived: one line "NAME BASE64" each; where it failed log.tree holds what was left.
# $1 data directory  $2 its device:inode  $3 run id of its mark  $4 owner  $5 names of those files, by blanks
# $6 words of the command that expands what was compressed, 0 for none  $7 words of the unpack command
# $8 bytes a second at most from the beginning on, empty for no limit  then these two commands, then ssh's
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
as_owner=()
[ "$(id -un)" = "$owner" ] || as_owner=(setpriv "--reuid=$owner" "--regid=$(id -gn -- "$owner")" --init-groups)

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
    cd / && exec "${as_owner[@]}" "${unpack[@]}"
}

# Hold the stream back while more has come than the file "rate" allows (bytes a second; empty or missing: no limit): who reads from
# the transport is stopped and let go again, and the source's tool waits for it as for any slow link. Never the transport itself: a
# stopped ssh does not answer keepalives, and a source whose sshd asks for them hangs up. No process is started for it: each turn is
# the shell's own. $1 a pipe without a writer  $2 the file with the number of who reads
brake() {
    local pid name rate limit='' began=0 base=0 now counted ahead pause turn=20 born=''
    held='' reader='' reader_born='' # not local: the trap needs them when this has returned
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
        # what the link could not carry is not made up for later
        if [ "$ahead" -lt -1000 ]; then began=$now base=$counted; fi
        # nor is all that a fast link brought in one moment: a longer silence would look like a stall
        if [ "$ahead" -gt 20000 ]; then began=$((now + 20000)) base=$counted ahead=20000; fi
        if [ "$ahead" -gt 0 ]; then
            if [ -z "$held" ]; then
                held=1
                kill -STOP "$reader"
                # the shorter it ran free, the shorter it is held: a fast link brings much in a moment
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

# Tell whether the number $1 is still that of the process that was born at $2 (empty: not known yet); birth is when it was.
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
stat -c %i -- "$datadir/ibdata1" 2>/dev/null >"$(mark_of "$datadir" "$mark")" # whose data this is, from here on
# What is counted in /proc was last looked at when somebody asked: after a silence that is long ago.
size=$(du -sb --exclude='.dbops-*' -- "$datadir" | cut -f1)
seen=0
[ ! -e counter.unpack ] || read -r seen _ <counter.unpack
[ "${seen:-0}" -ge "${size:-0}" ] || echo "$size $size" >counter.unpack
echo "${stages[0]}" >stage.transport
[ "$expands" = 0 ] || echo "${stages[1]}" >stage.expand
echo "${stages[2]}" >stage.unpack
for name in "${names[@]}"; do
    [ ! -f "$datadir/$name" ] || printf '%s %s\n' "$name" "$(head -c 262144 -- "$datadir/$name" | base64 -w0)"
done >log.files
[ "${stages[*]}" = "0 0 0" ] && exit
tree_of "$datadir" >log.tree
exit 1
