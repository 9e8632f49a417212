#!/bin/sh
# archive.sh - what is staged with the libraries it needs, for any Linux of the same C library or a
# newer one: it runs from wherever it is unpacked.
#
#   packages/archive.sh STAGE PROGRAM FOLDER VERSION
#
# PROGRAM finds libraries in ../lib/cerium: `make build/release/cerium_portable`.
set -eu
stage=$1 program=$2 out=$3 version=$4
here=$(dirname "$0")
export LC_ALL=C TZ=UTC
umask 022
epoch=$("$here/epoch.sh")
"$here/staged.sh" "$stage"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
name=cerium-$version-linux-$(uname -m)
root=$work/$name
mkdir -p "$root/bin" "$root/lib/cerium" "$out"
cp "$program" "$root/bin/cerium"
strip --remove-section=.comment --remove-section=.note.gnu.build-id "$root/bin/cerium"
cp -r "$stage/usr/share" "$root/share"
"$here/libraries.sh" "$program" | while read -r library file; do
    # The C library and its loader are the system's: they belong together.
    case $library in
    /* | libc.so.* | libm.so.* | libpthread.so.* | libdl.so.* | librt.so.* | libresolv.so.*) ;;
    *) cp -L "$file" "$root/lib/cerium/$library" ;;
    esac
done
find "$root" -type f ! -path '*/bin/*' -exec chmod 644 {} +
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" --format=gnu \
    -cf "$work/tar" "$name"
gzip -6 -n <"$work/tar" >"$out/$name.tar.gz"
echo "archive: $name.tar.gz, $(($(wc -c <"$out/$name.tar.gz") / 1000000)) MB"
