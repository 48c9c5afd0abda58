#!/bin/bash
# The first process of a job and leader of its session: write the journal around the job's script.
# Its working directory is the job's directory; its arguments are the script's.
set -u
read -r line </proc/$$/stat
read -r -a fields <<<"${line##*) }"
read -r boot </proc/sys/kernel/random/boot_id

# Reserve a block for the status now and overwrite it in place later, in case the job fills the disk.
printf '%-80s\n' '' >rc.new || exit 125

forget_secrets() {
    [[ -e secrets ]] || return 0
    while read -r name; do rm -f "./$name"; done <secrets
    rm -f secrets
}
trap forget_secrets EXIT
# handled, not ignored: the script gets the default action, and this wrapper survives to write the status
trap : INT TERM HUP QUIT

printf '%s %s %s %s\n' "$$" "${fields[19]}" "$boot" "$(date +%s)" >pid.new && mv -f pid.new pid || exit 125

# redirect our standard error: bash would report a killed script in the script's log
exec 6>&2 2>/dev/null
(umask 027 && exec bash ./script "$@" 2>&6 6>&-)
status=$?
exec 2>&6

forget_secrets
printf '%-80s\n' "$status $(date +%s)" 1<>rc.new && mv -f rc.new rc
