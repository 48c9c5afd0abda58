#!/bin/bash
# Unpack a database server's programs from the packages of another Debian suite into a directory. Installs nothing, needs
# no root, and does not touch the machine's libraries. Only the tests of that server use the programs.
#
#   unpack-server.sh mysql | mariadb-11.8 PREFIX PATCHELF     prints the version; PATCHELF is the program of that name
#
# The packages come from the mirror of this machine's apt. Each program gets its own loader and library path (RPATH, because
# RUNPATH does not apply to dependencies of libraries), so that its process keeps its own name.
set -eu
umask 022
server=$1 prefix=$2 patchelf=$3

give_up() {
    echo "The programs of $server are not available: $*" >&2
    exit 1
}

case $server in
mysql)
    suite=sid mainprogram=usr/sbin/mysqld
    wanted="mysql-server-core mysql-client-core"
    whole="mysql-*"
    # libraries that no kept program links to
    unneeded='perl|libperl|curl|libcurl|ldap|libldap|libfido2|mecab|libmecab'
    programs="usr/sbin/mysqld usr/bin/mysql usr/bin/mysqldump usr/bin/mysqladmin usr/bin/my_print_defaults"
    scripts=""
    ;;
mariadb-11.8)
    suite=trixie mainprogram=usr/sbin/mariadbd
    wanted="mariadb-server-core mariadb-client mariadb-backup"
    whole="mariadb-*"
    unneeded='perl|libperl|libdbi|libdbd|libconfig-inifiles|libterm-readkey'
    programs="usr/sbin/mariadbd usr/bin/mariadb usr/bin/mariadb-admin usr/bin/mariadb-dump usr/bin/mariadb-backup"
    programs="$programs usr/bin/mbstream usr/bin/my_print_defaults usr/bin/resolveip"
    scripts="usr/bin/mariadb-install-db"
    ;;
*) give_up "unpacked are mysql and mariadb-11.8." ;;
esac

[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || give_up "only Debian packages for amd64 are unpacked."
command -v apt-get >/dev/null || give_up "apt-get is not here."
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -e "$keyring" ] || give_up "$keyring is not here."
# shellcheck disable=SC2016  # apt-get's own words
mirror=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    sed -n 's/^Debian Debian main //p' | head -n 1)
[ -n "$mirror" ] || mirror=$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb  *\(\[[^]]*\] *\)\{0,1\}\([^ ]*\).*/\2/p' \
    /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -n 1)
[ -n "$mirror" ] || give_up "apt names no mirror of Debian."

mkdir -p "$(dirname "$prefix")"
work=$(mktemp -d "$prefix.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs" "$work/etc/empty"
chmod 0755 "$work" # apt-get reads as another user
echo "deb [signed-by=$keyring] $mirror $suite main" >"$work/etc/sources.list"
cat >"$work/apt.conf" <<END
Dir::Etc::sourcelist "$work/etc/sources.list";
Dir::Etc::sourceparts "$work/etc/empty";
Dir::Etc::preferencesparts "$work/etc/empty";
Dir::Etc::preferences "/dev/null";
Dir::State::lists "$work/lists";
Dir::State::status "/dev/null";
Dir::Cache "$work/cache";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false";
Acquire::Retries "2";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
APT::Sandbox::User "root";
APT::Install-Recommends "false";
END
export APT_CONFIG="$work/apt.conf"
apt-get -qq update >"$work/log" 2>&1 || give_up "$(tail -n 2 "$work/log")"
# shellcheck disable=SC2086  # the packages are words
apt-get -s install $wanted >"$work/closure" 2>"$work/log" || give_up "$(tail -n 2 "$work/log")"
packages=$(sed -n 's/^Inst \([^ ]*\) .*/\1/p' "$work/closure" | grep -Ev "^($unneeded)")
[ -n "$packages" ] || give_up "apt-get found no packages."
# shellcheck disable=SC2086
(cd "$work/debs" && apt-get -qq download $packages) >"$work/log" 2>&1 || give_up "$(tail -n 2 "$work/log")"

root=$work/root
mkdir "$root"
for package in "$work"/debs/*.deb; do
    # shellcheck disable=SC2254  # a pattern
    case ${package##*/} in
        $whole) dpkg-deb --fsys-tarfile "$package" | tar -x -C "$root" ;;
        *) dpkg-deb --fsys-tarfile "$package" | tar -x -C "$root" --wildcards '*.so*' 2>/dev/null || true ;;
    esac
done
rm -rf "${root:?}/usr/share/doc" "${root:?}/usr/share/man" "${root:?}/etc" "${root:?}/var"
find "$root/usr/lib/mysql/plugin" -name '*test*' -delete 2>/dev/null || true

for file in "$root"/usr/bin/* "$root"/usr/sbin/*; do
    case " $programs $scripts " in *" ${file#"$root/"} "*) ;; *) rm -f "$file" ;; esac
done
libraries=usr/lib/x86_64-linux-gnu
loader=$(cd "$root" && find . -name 'ld-linux-x86-64.so.2' | head -n 1)
[ -n "$loader" ] || give_up "the packages hold no loader."
for name in $programs; do
    [ -e "$root/$name" ] || continue
    [ "$(head -c 4 "$root/$name" | tail -c 3)" = ELF ] || continue
    "$patchelf" --set-interpreter "$prefix/${loader#./}" --force-rpath \
        --set-rpath "$prefix/$libraries:$prefix/lib/x86_64-linux-gnu:$prefix/usr/lib/mysql/private" "$root/$name"
done
# the programs contain their final path; try them there and keep them only if they run
rm -rf "$prefix"
mv "$root" "$prefix"
"$prefix/$mainprogram" --no-defaults --version >"$work/version" 2>"$work/log" || {
    rm -rf "$prefix"
    give_up "$(tail -n 2 "$work/log")"
}
sed -n 's/.*Ver \([0-9.]*\).*/\1/p' "$work/version" | tee "$prefix/version"
