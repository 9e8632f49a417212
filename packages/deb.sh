#!/bin/sh
# deb.sh - a package for Debian 12 of what is staged.
#
#   packages/deb.sh STAGE FOLDER VERSION      FOLDER/cerium_VERSION_ARCH.deb
set -eu
stage=$1 out=$2 version=$3
here=$(cd "$(dirname "$0")" && pwd)
"$here/staged.sh" "$stage"
command -v dh >/dev/null || { echo "deb.sh: install debhelper" >&2; exit 1; }
export LC_ALL=C TZ=UTC DEB_BUILD_OPTIONS=nocheck
umask 022
SOURCE_DATE_EPOCH=$("$here/epoch.sh")
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out" "$work/cerium/debian"
out=$(cd "$out" && pwd)
cp -r "$here/debian/." "$work/cerium/debian/"
cp -r "$stage" "$work/stage"
cd "$work/cerium"
when=$(date -R -u -d "@$SOURCE_DATE_EPOCH")
printf 'cerium (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- %s  %s\n' "$version" \
    "$(sed -n 's/^Maintainer: //p' debian/control)" "$when" >debian/changelog
mkdir -p debian/cerium
cp -r "$work/stage/." debian/cerium/
rm -f debian/cerium/usr/share/doc/cerium/LICENSE # debian/copyright says it
# Where Debian 12 has units.
mkdir -p debian/cerium/lib/systemd
mv debian/cerium/usr/lib/systemd/system debian/cerium/lib/systemd/
rmdir -p --ignore-fail-on-non-empty debian/cerium/usr/lib/systemd
mv debian/cerium/usr/share/zsh/site-functions debian/cerium/usr/share/zsh/vendor-completions
dh_installdocs --package=cerium
dh_installchangelogs
dh_installsystemd --no-enable --no-start
dh_compress
dh_fixperms
dh_shlibdeps
dh_installdeb
dh_gencontrol
dh_md5sums
dh_builddeb --destdir="$out" -- -Zxz
