#!/bin/bash
# Pull the backup from the source into the empty data directory. The data passes through nobody else's machine.
# Afterwards log.files holds the small files that prove what arrived: one line "NAME BASE64" each.
# $1 data directory  $2 its device:inode  $3 owner  $4 names of those files, by blanks  $5 words of the unpack command
# then that command, then ssh's
set -u
umask 077
datadir=$1 identity=$2 owner=$3 words=$5
read -r -a names <<<"$4"
shift 5
unpack=("${@:1:words}")
transport=("${@:words+1}")
[ "$(identity_of "$datadir")" = "$identity" ] || refuse "$datadir is not the directory that was made for this run."
[ -z "$(find "$datadir" -mindepth 1 -maxdepth 1 ! -name lost+found ! -name '.dbops-old-*' -print -quit)" ] || refuse "$datadir is not empty."
[ -z "$(servers_in "$datadir")" ] || refuse "A server runs on $datadir."
as_owner=()
[ "$(id -un)" = "$owner" ] || as_owner=(setpriv "--reuid=$owner" "--regid=$(id -gn -- "$owner")" --init-groups)
(
    echo "$BASHPID" >pid.transport
    exec "${transport[@]}" 2>log.transport </dev/null
) | (
    echo "$BASHPID" >pid.unpack
    exec 2>log.unpack >&2
    cd / && exec "${as_owner[@]}" "${unpack[@]}"
)
stages=("${PIPESTATUS[@]}")
echo "${stages[0]}" >stage.transport
echo "${stages[1]}" >stage.unpack
for name in "${names[@]}"; do
    [ ! -f "$datadir/$name" ] || printf '%s %s\n' "$name" "$(head -c 262144 -- "$datadir/$name" | base64 -w0)"
done >log.files
[ "${stages[*]}" = "0 0" ]
