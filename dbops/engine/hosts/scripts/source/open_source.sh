#!/bin/bash
# Write the forced command, its arguments and its credentials to the run directory, and authorize the run's key.
# Standard input: the option file of the backup account, then a line "----", then the serve script.
# $1 run id  $2 public key  $3 from= addresses  $4 seconds until the key expires  $5 authorized_keys file or empty
# $6 SSH user  $7 1 to go through sudo  $8 data directory  $9 the server's option file, empty if no tool reads it  $10 its groups
# $11 options for the tool  then the backup command
set -eu
umask 077
run_id=$1 public_key=$2 from=$3 lifetime=$4 keys=$5 user=$6 through_sudo=$7
datadir=$8 defaults=$9
shift 9
groups=$1 names=$2
shift 2
cat >input.tmp
sed '/^----$/,$d' input.tmp >backup.cnf.tmp
sed '1,/^----$/d' input.tmp >serve.tmp
rm -f input.tmp
add_tool_options backup.cnf.tmp "$datadir" "$defaults" "$groups" "$names"
mv -f backup.cnf.tmp backup.cnf
if [ -n "$names" ]; then
    owner=$(account_of_server "$datadir") || { echo "$owner" && exit 70; }
    make_tool_directory "$owner" "$run_id"
    set_tool_words "$owner" "$run_id" "$@"
    # shellcheck disable=SC2154  # set_tool_words sets it
    set -- "${tool_words[@]}"
fi
printf '%s\0' "$@" >backup.argv
mv -f serve.tmp serve
touch heartbeat

keys=$(keys_file "$keys" "$user")
[ -d "$(dirname "$keys")" ] || install -d -m 0700 -o "$user" "$(dirname "$keys")"
[ -e "$keys" ] || install -m 0600 -o "$user" /dev/null "$keys"
# by bash, not as a program: the file system can be mounted noexec
# in single quotes, which every login shell supports: printf %q writes $'...' for non-ASCII text
# a host with a gate allows nothing but the gate, which runs it by bash
run=${DBOPS_GATE:-bash}${DBOPS_GATE:+ serve}
command="$run '$(printf '%s' "$PWD/serve" | sed "s/'/'\\\\''/g")' \"\$SSH_ORIGINAL_COMMAND\""
[ "$through_sudo" != 1 ] || command="sudo -n -- $command"
expiry=$(date -d "+$lifetime seconds" +%Y%m%d%H%M%S)
# sshd removes only a backslash before a quote
line="restrict,command=\"$(printf '%s' "$command" | sed 's/"/\\"/g')\",from=\"$from\",expiry-time=\"$expiry\" $public_key"
revoke_key "$keys" "$run_id"
(
    flock -w 10 8
    [ -z "$(tail -c 1 -- "$keys")" ] || echo >>"$keys"
    printf '%s\n' "$line" >>"$keys"
) 8>>"$(dirname "$keys")/.dbops-keys.lock"
echo "expires=$expiry"
