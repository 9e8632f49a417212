#!/bin/sh
# fetch_grammars.sh - the grammars of tools/grammars.list into build/grammars, once.
#
#   tools/fetch_grammars.sh FOLDER
#
# Leaves FOLDER/grammars.mk, which names the folders to compile: those that are there.  What cannot
# be had (no network, no npm) is left out with one line; the watchdog then reads that
# language for secrets and by lines only.  `make grammars` tries again.
list=$(dirname "$0")/grammars.list
folder=${1:-build/grammars}
mkdir -p "$folder" || exit 1

# fetch PACKAGE VERSION FILE
fetch() {
    command -v npm >/dev/null || return
    packed=$(cd "$folder" && npm pack --silent "$1@$2" 2>/dev/null | tail -n 1)
    [ -n "$packed" ] && [ -f "$folder/$packed" ] && mv "$folder/$packed" "$3"
}

# package PACKAGE VERSION SHA256: unpacked and checked, or not there.
package() {
    [ -f "$folder/$1-$2/package.json" ] && return
    archive=$folder/$1-$2.tgz
    fetch "$1" "$2" "$archive.new" || return 1
    if ! echo "$3  $archive.new" | sha256sum -c --quiet - >/dev/null 2>&1; then
        echo "grammars: $1 $2 is not what tools/grammars.list says: left out" >&2
        rm -f "$archive.new"
        return 1
    fi
    rm -rf "$folder/$1-$2.new" && mkdir -p "$folder/$1-$2.new" &&
        tar -xzf "$archive.new" -C "$folder/$1-$2.new" --strip-components=1 &&
        mv "$folder/$1-$2.new" "$folder/$1-$2" && rm -f "$archive.new"
}

missing=
{
    echo "# Made by tools/fetch_grammars.sh."
    grep -v '^#' "$list" | while read -r name version sum parsers; do
        if package "$name" "$version" "$sum"; then
            for p in $parsers; do echo "GRAMMARS += ${p%%:*}=$name-$version/${p#*:}"; done
        else
            echo "# missing: $name $version"
        fi
    done
} >"$folder/grammars.mk.new"
missing=$(sed -n 's/^# missing: tree-sitter-\([a-z]*\).*/\1/p' "$folder/grammars.mk.new" |
    tr '\n' ' ')
[ -z "$missing" ] ||
    echo "grammars: none for $missing: fewer checks (install npm, then: make grammars)" >&2
mv "$folder/grammars.mk.new" "$folder/grammars.mk"
