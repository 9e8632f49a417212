#!/bin/sh
# stage.sh - what every package has, in one folder: `make install-program`, stripped, with the units
# and the configuration.
#
#   O=build/release packages/stage.sh STAGE
#
# The bytes depend on the commit and on nothing else: no time, no folder, no user.
set -eu
stage=$1
here=$(dirname "$0")
umask 022
rm -rf "$stage"
mkdir -p "$stage"
# What is built is there already: built again, it could be another build.
env MAKEFLAGS= make --no-print-directory -s install-files O="$O" DESTDIR="$stage" PREFIX=/usr
# The build's number is made of the folder that it was built in, too.
strip --remove-section=.comment --remove-section=.note.gnu.build-id "$stage/usr/bin/cerium"

units=$stage/usr/lib/systemd/system
mkdir -p "$units" "$stage/etc/cerium" "$stage/usr/share/doc/cerium"
installed() { # INI STORE
    sed -e '/^#   sudo/d' -e "s|/usr/local/bin/cerium|/usr/bin/cerium|" \
        -e "s|serve --store %S/cerium/responses.db|serve --config /etc/cerium/$1 --store $2|"
}
installed cerium.ini '%S/cerium/responses.db' <examples/cerium.service >"$units/cerium.service"
# cerium@NAME.service: several servers on a host, each with its own file and folder.
installed %i.ini '%S/cerium/%i/responses.db' <examples/cerium.service |
    sed -e '1s/cerium.service/cerium@.service/' -e 's|^StateDirectory=cerium|&/%i|' \
        -e 's|^Description=.*|&, %i|' -e 's|systemctl edit cerium|&@NAME|' >"$units/cerium@.service"
cp "$here/cerium.ini" "$stage/etc/cerium/cerium.ini"
cp LICENSE "$stage/usr/share/doc/cerium/"
find "$stage" -type d -exec chmod 755 {} +
find "$stage" -type f ! -path '*/bin/*' -exec chmod 644 {} +
"$here/staged.sh" "$stage"
