#!/bin/bash
# The first process of a job, the leader of its session: writes the journal around the job's script.
# It stands in the job's directory; its arguments are the script's.
set -u
read -r line </proc/$$/stat
read -r -a fields <<<"${line##*) }"
read -r boot </proc/sys/kernel/random/boot_id

# The status must find room even when the job fills the disk: its block is taken now and overwritten in place later.
printf '%-80s\n' '' >rc.new || exit 125

forget_secrets() {
    [[ -e secrets ]] || return 0
    while read -r name; do rm -f "./$name"; done <secrets
    rm -f secrets
}
trap forget_secrets EXIT
# handled, not ignored: the script gets the default action back, while we stay to write down how it ended
trap : INT TERM HUP QUIT

printf '%s %s %s %s\n' "$$" "${fields[19]}" "$boot" "$(date +%s)" >pid.new && mv -f pid.new pid || exit 125

# our own standard error is put away meanwhile: bash would note a killed script in the script's log
exec 6>&2 2>/dev/null
(umask 027 && exec bash ./script "$@" 2>&6 6>&-)
status=$?
exec 2>&6

forget_secrets
printf '%-80s\n' "$status $(date +%s)" 1<>rc.new && mv -f rc.new rc
