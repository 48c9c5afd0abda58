#!/bin/sh
# Run a command of dbops as root, if the dashboard signed it for this host and this moment. Everything else is refused.
# Needs exchangeable.sh, and the constants self, version, host, key and PATH, which are set before this text.
#
#   dbops-gate                  print a challenge; standard input: a line with the signature in base64, then the signed shell text
#   dbops-gate serve FILE WORD  the forced command of a run's key, for a run that is open
# shellcheck disable=SC2154  # the constants
set -u
umask 022
unset OPENSSL_CONF OPENSSL_MODULES OPENSSL_ENGINES
cd / || exit 97

refuse() {
    echo "dbops-gate: $*" >&2
    exit 97
}

# Only root can exchange anything on the path of a run's directory, and signed commands wrote what is in it.
serve() {
    run=$(readlink -f -- "${1%/*}") || refuse "no such run"
    case $run in */rebuilds/?*) ;; *) refuse "not a run's directory" ;; esac
    [ -z "$(exchangeable_at "$run")" ] || refuse "not root's own directory"
    cd -- "$run" || refuse "no such run"
    [ -f ./backup.argv ] || refuse "the run is not open"
    exec bash ./serve "$2"
}

is_signed() { # signature, text
    printf %s "$1" | base64 -d 2>/dev/null | {
        printf %s "$2" | openssl dgst -sha256 -verify /dev/fd/3 -signature /dev/fd/4 3<<END 4<&5 5<&-
$key
END
    } 5<&0 >/dev/null 2>&1
}

case $# in
    0) ;;
    3)
        [ "$1" = serve ] || refuse "not a command of dbops"
        serve "$2" "$3"
        ;;
    *) refuse "not a command of dbops" ;;
esac
command -v openssl >/dev/null || refuse "openssl is not installed on this host"
# new for each command: a signed text is good for one command on one host
read -r challenge </proc/sys/kernel/random/uuid || refuse "no random number"
echo "dbops-gate $challenge"
read -r signature || refuse "no command"
text=$(cat)
is_signed "$signature" "$text" || refuse "the command is not signed by the dashboard of this program"
case $text in
    "# dbops-gate $version $challenge $host
"*) ;;
    "# dbops-gate $version "*) refuse "the command was signed for another host or another moment" ;;
    *) refuse "the command was signed by a dashboard of another version" ;;
esac
DBOPS_GATE=$self
export DBOPS_GATE
eval "$text"
