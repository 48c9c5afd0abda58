#!/bin/bash
# Run as root: install the Debian packages given as arguments without starting their services, now or at the next
# boot, because dbops starts its own.
set -eu

policy=/usr/sbin/policy-rc.d
units="ssh redis-server mariadb postgresql nginx apache2 haproxy caddy pgbouncer prometheus rsyslog"

if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 1' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi

present=""
if command -v systemctl >/dev/null; then
    for unit in $units; do
        ! systemctl cat "$unit.service" >/dev/null 2>&1 || present="$present $unit "
    done
fi

export DEBIAN_FRONTEND=noninteractive
apt-get install -y -qq --no-install-recommends --no-remove -o Dpkg::Use-Pty=0 "$@" </dev/null

if command -v systemctl >/dev/null; then
    for unit in $units; do
        case $present in
            *" $unit "*) ;; # existed before: its owner decides
            *) systemctl disable --quiet "$unit.service" >/dev/null 2>&1 || true ;;
        esac
    done
fi
