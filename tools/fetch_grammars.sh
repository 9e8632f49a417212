#!/bin/sh
# fetch_grammars.sh - the grammars of tools/grammars.list into build/grammars, once.
#
#   tools/fetch_grammars.sh [FOLDER [LIST]]
#
# pip fetches source distributions and checks their digests before it reads them; from each, the
# files next to the listed parsers are unpacked.  Leaves
# FOLDER/grammars.mk, which names the existing folders to compile.  Anything unavailable
# (no network, no pip) is left out, and one line reports it; the watchdog then cannot judge that
# language.  The next make tries again.  An unchanged grammars.mk is left alone: otherwise make
# would rebuild.
tools=$(cd "$(dirname "$0")" && pwd) # pip works elsewhere
folder=${1:-build/grammars} list=${2:-$tools/grammars.list}
mkdir -p "$folder" || exit 1

# complete FOLDER PARSERS: whether all its parsers exist.
complete() {
    for c_parser in $2; do [ -f "$1/${c_parser#*:}/parser.c" ] || return 1; done
}

# fetch PACKAGE VERSION SHA256 INTO: the archive, checked, in the folder INTO.
fetch() {
    echo "$1==$2 --hash=sha256:$3" >"$4/wanted"
    PYTHONPATH=$tools/grammars/no_build PYTHONDONTWRITEBYTECODE=1 \
        python3 -m pip --disable-pip-version-check --no-input \
        download --quiet --no-deps --no-build-isolation --no-binary :all: --require-hashes \
        --retries 2 --timeout 60 --dest "$4" --requirement "$4/wanted" >"$4/log" 2>&1
}

# unpack FOLDER PARSERS: from the archive in it, the parsers, and files next to their src.
unpack() {
    u_folder=$1
    set -- $2
    for u_parser; do
        shift
        u_parser=${u_parser#*:}
        set -- "$@" "*/${u_parser%/src}/*"
    done
    tar -xzf "$u_folder"/*.tar.gz -C "$u_folder" --strip-components=1 --wildcards "$@" &&
        rm "$u_folder"/*.tar.gz
}

# package PACKAGE VERSION SHA256 PARSERS: unpacked, or absent.
package() {
    place=$folder/$1-$2
    complete "$place" "$4" && return
    rm -rf "$place" "$place.new" && mkdir -p "$place.new" || return 1
    if ! fetch "$1" "$2" "$3" "$place.new"; then
        ! grep -q 'DO NOT MATCH' "$place.new/log" ||
            echo "grammars: $1 $2 is not what $list says: left out" >&2
        mv "$place.new/log" "$folder/log"
        rm -rf "$place.new"
        return 1
    fi
    unpack "$place.new" "$4" || return 1
    complete "$place.new" "$4" && mv "$place.new" "$place"
}

# All at once: most of the time is waiting.
while read -r name version sum parsers; do
    package "$name" "$version" "$sum" "$parsers" &
done <<END
$(grep -v '^#' "$list")
END
wait
{
    echo "# Made by tools/fetch_grammars.sh."
    grep -v '^#' "$list" | while read -r name version sum parsers; do
        complete "$folder/$name-$version" "$parsers" || {
            echo "# missing: $name $version:$(printf ' %s' "$parsers" | sed 's/:[^ ]*//g')"
            continue
        }
        for p in $parsers; do echo "GRAMMARS += ${p%%:*}=$name-$version/${p#*:}"; done
    done
} >"$folder/grammars.mk.new"
missing=$(sed -n 's/^# missing: .*: //p' "$folder/grammars.mk.new" | tr '\n' ' ')
[ -z "$missing" ] || echo "grammars: none for ${missing% }: the watchdog cannot judge these" \
    "languages (it takes a network and python3-pip; why it failed is in $folder/log; the next" \
    "make tries again)" >&2
if cmp -s "$folder/grammars.mk.new" "$folder/grammars.mk"; then
    rm "$folder/grammars.mk.new"
else
    mv "$folder/grammars.mk.new" "$folder/grammars.mk"
fi
