#!/bin/bash
# Write the forced command, its arguments and its credentials to the run directory, and authorize the run's key.
# Standard input: the option file of the backup account, then a line "----", then the serve script.
# $1 run id  $2 public key  $3 from= addresses  $4 seconds until the key expires  $5 authorized_keys file or empty
# $6 SSH user  $7 1 to go through sudo  then the backup command
set -eu
umask 077
run_id=$1 public_key=$2 from=$3 lifetime=$4 keys=$5 user=$6 through_sudo=$7
shift 7
cat >input.tmp
sed '/^----$/,$d' input.tmp >backup.cnf.tmp
sed '1,/^----$/d' input.tmp >serve.tmp
rm -f input.tmp
printf '%s\0' "$@" >backup.argv
mv -f backup.cnf.tmp backup.cnf
chmod 0700 serve.tmp
mv -f serve.tmp serve
touch heartbeat

keys=$(keys_file "$keys" "$user")
[ -d "$(dirname "$keys")" ] || install -d -m 0700 -o "$user" "$(dirname "$keys")"
[ -e "$keys" ] || install -m 0600 -o "$user" /dev/null "$keys"
# in single quotes, which every login shell supports: printf %q writes $'...' for non-ASCII text
run="'$(printf '%s' "$PWD/serve" | sed "s/'/'\\\\''/g")'"
# through bash: the work directory can be on a file system without the right to execute (noexec)
command="bash $run \"\$SSH_ORIGINAL_COMMAND\""
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
