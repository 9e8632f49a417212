#!/bin/sh
# build.sh - every package, from one staging folder: what `make package` runs.
#
#   O=build/release VERSION=0.1.0 packages/build.sh build/package
#
# RELEASES is the address that install.sh and the formula fetch from.
set -eu
out=$1
here=$(dirname "$0")
RELEASES=${RELEASES:-https://releases.example.org/cerium/$VERSION}
rm -rf "$out"
mkdir -p "$out"
"$here/stage.sh" "$out/stage"
"$here/image.sh" "$out/stage" "$out/cerium-image" "$VERSION"
if command -v dh >/dev/null; then
    "$here/deb.sh" "$out/stage" "$out" "$VERSION" >"$out/deb.log" 2>&1 || {
        cat "$out/deb.log"
        exit 1
    }
    echo "deb: $(cd "$out" && ls cerium_*.deb)"
else
    echo "skipped: the .deb: debhelper is not installed"
fi
"$here/archive.sh" "$out/stage" "$O/cerium_portable" "$out" "$VERSION"
git archive --format=tar --prefix="cerium-$VERSION/" HEAD | gzip -9 -n \
    >"$out/cerium-$VERSION.tar.gz"
tar -C "$here" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$("$here/epoch.sh")" \
    -cf - chart | gzip -9 -n >"$out/cerium-chart-$VERSION.tgz"
"$here/fill.sh" "$out" "$VERSION" "$RELEASES" <"$here/install.sh.in" >"$out/install.sh"
"$here/fill.sh" "$out" "$VERSION" "$RELEASES" <"$here/cerium.rb.in" >"$out/cerium.rb"
(cd "$out" && find . -maxdepth 1 -type f ! -name '*.log' | sort | xargs sha256sum) >"$out.sums"
mv "$out.sums" "$out/SHA256SUMS"
