#!/bin/sh
# test_deb.sh - the .deb: lintian has no complaint; that of `make package` is also built once
# more, and installed, upgraded and purged in a Debian of its own.
. tests/shell.sh
. tests/packages/stage.sh

if ! command -v dh >/dev/null; then
    skip "the .deb" "debhelper is not installed"
    report deb
    exit
fi
deb() { packages/deb.sh "$stage" "$1" "$2"; }
[ "$PACKAGES" ] || check "a .deb is made" deb "$work/one" "$version"
package=$(ls "${PACKAGES:-$work/one}"/cerium_*.deb)
if command -v lintian >/dev/null; then
    check "lintian finds no error" lintian --fail-on error --no-tag-display-limit "$package"
else
    skip "lintian" "it is not installed"
fi
has() { dpkg-deb -c "$package" | grep -q " \./$1\$" || { dpkg-deb -c "$package"; return 1; }; }
for file in usr/bin/cerium lib/systemd/system/cerium.service lib/systemd/system/cerium@.service \
    etc/cerium/cerium.ini usr/share/man/man1/cerium.1.gz usr/share/cerium/models/cerium-line.gguf \
    usr/share/bash-completion/completions/cerium usr/share/zsh/vendor-completions/_cerium \
    usr/share/fish/vendor_completions.d/cerium.fish usr/share/doc/cerium/copyright; do
    check "it has $file" has "$file"
done
check "its configuration is one that users may change" sh -c \
    "dpkg-deb -I '$package' conffiles | grep -qx /etc/cerium/cerium.ini"

if command -v systemd-analyze >/dev/null; then
    mkdir "$work/units"
    for unit in cerium cerium@; do
        sed "s|/usr/bin/cerium|$(command -v true)|; /^Documentation=/d" \
            "$stage/usr/lib/systemd/system/$unit.service" >"$work/units/$unit.service"
    done
    cp "$work/units/cerium@.service" "$work/units/cerium@one.service"
    check "systemd takes the unit" systemd-analyze verify "$work/units/cerium.service"
    check "and an instance of the template" systemd-analyze verify "$work/units/cerium@one.service"
else
    skip "the units" "systemd-analyze is not installed"
fi

if [ -z "$PACKAGES" ]; then
    skip "the .deb in a Debian of its own" "only make package does that"
elif [ "$(id -u)" != 0 ] || ! command -v mmdebstrap >/dev/null; then
    skip "the .deb in a Debian of its own" "it needs root and mmdebstrap"
else
    check "a second one" deb "$work/two" "$version"
    check "is the same" cmp "$package" "$work"/two/cerium_*.deb
    newer() {
        dpkg-deb -R "$package" "$work/newer"
        sed -i 's/^Version: .*/&+1/' "$work/newer/DEBIAN/control"
        dpkg-deb --root-owner-group -Znone -b "$work/newer" "$work/new.deb"
    }
    check "a newer one" newer
    mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | sed '/^ *#/d' |
        grep -Eo '(https?|file|copy):[^ ]*debian/?( |$)' | head -n 1 | tr -d ' ')
    depends=$(dpkg-deb -f "$package" Depends | sed 's/ ([^)]*)//g; s/, /,/g')
    check "a Debian with its dependencies" mmdebstrap --quiet --variant=minbase \
        --include="$depends" bookworm "$work/debian" "$mirror"
    cp "$package" "$work/debian/old.deb"
    cp "$work/new.deb" "$work/debian/new.deb"
    inside() { chroot "$work/debian" env PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C "$@"; }
    mount --bind /proc "$work/debian/proc" &&
        trap 'umount "$work/debian/proc"; rm -rf --one-file-system "$work"' EXIT
    check "it is installed" inside dpkg -i /old.deb
    check "and completes a line" inside cerium run --raw --quiet -n 4 -p 'def add('
    echo '#mine' >>"$work/debian/etc/cerium/cerium.ini"
    mkdir -p "$work/debian/var/lib/private/cerium"
    check "an upgrade" inside dpkg -i /new.deb
    check "keeps the configuration" grep -q '^#mine' "$work/debian/etc/cerium/cerium.ini"
    check "it is removed" inside dpkg -r cerium
    check "with the configuration kept" test -e "$work/debian/etc/cerium/cerium.ini"
    check "a purge" inside dpkg -P cerium
    left() {
        (cd "$work/debian" && find etc usr var/lib -name '*cerium*' ! -path '*/dpkg/*' | grep .)
    }
    nothing_left() { ! left; }
    check "leaves nothing" nothing_left
fi
report deb
