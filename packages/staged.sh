#!/bin/sh
# staged.sh - what packages are made of is in a staged folder; else fails with what is missing and
# what is there.  Asked when it was staged and again by each package: it could have been lost.
#
#   packages/staged.sh STAGE
set -eu
stage=$(realpath "$1")
missing=
cd "$(dirname "$0")/.."
for file in $(printf 'usr/share/cerium/%s ' machines/*.ini rules/*.yaml) usr/bin/cerium \
    usr/lib/systemd/system/cerium.service usr/lib/systemd/system/cerium@.service \
    etc/cerium/cerium.ini usr/share/doc/cerium/LICENSE \
    usr/share/man/man1/cerium.1 usr/share/bash-completion/completions/cerium \
    usr/share/zsh/site-functions/_cerium usr/share/fish/vendor_completions.d/cerium.fish \
    usr/share/cerium/models/models.list usr/share/cerium/models/cerium-line.gguf; do
    [ -s "$stage/$file" ] || missing="$missing $file"
done
[ "$missing" ] || exit 0
{
    echo "staged.sh: $stage lacks$missing"
    ls -lad --time-style=full-iso "$(dirname "$stage")" "$stage" || true
    find "$stage" -printf '%P %s %c\n' || true
    df "$(dirname "$stage")" || true
} >&2
exit 1
