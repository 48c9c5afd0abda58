#!/bin/sh
# Print the certificate and the public key that the server on this host presents to its clients. Prints nothing else of a file:
# the owner of the data directory can replace both.
# $1 data directory  $2 option file of the server  $3 its group suffix or empty
set -u
datadir=$1 file=$2 suffix=$3
PATH=${PATH:-/usr/bin:/bin}:/usr/local/sbin:/usr/sbin:/sbin
LC_ALL=C
export PATH LC_ALL

said=$(env -i PATH="$PATH" LC_ALL=C my_print_defaults "--defaults-file=$file" ${suffix:+"--defaults-group-suffix=$suffix"} \
    mysqld server mariadb mariadbd 2>/dev/null) || said=

option() { # its last value; a path can be relative to the data directory
    value=$(printf '%s\n' "$said" | sed -n "s/^--\(loose[-_]\)\{0,1\}$1=//p" | tail -n 1)
    case $value in
    /*) printf '%s' "$value" ;;
    ?*) printf '%s' "$datadir/$value" ;;
    *) printf '%s' "$datadir/$2" ;;
    esac
}

part() { # path, kind: the first block of this kind
    [ -f "$1" ] || return 0
    timeout 5 head -c 65536 -- "$1" | sed -n "/^-----BEGIN $2-----\$/,/^-----END $2-----\$/p; /^-----END $2-----\$/q"
}

part "$(option 'ssl[-_]cert' server-cert.pem)" CERTIFICATE
part "$(option 'caching[-_]sha2[-_]password[-_]public[-_]key[-_]path' public_key.pem)" 'PUBLIC KEY'
