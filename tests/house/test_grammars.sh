#!/bin/sh
# test_grammars.sh - fetching of the watchdog's grammars: by pip alone, checked by digest, named
# when missing, tried again.  The packages are made here, without a network.
. tests/shell.sh

export PIP_NO_INDEX=1 PIP_FIND_LINKS="$work/shelf" PIP_CONFIG_FILE=/dev/null PIP_RETRIES=0
folder=$work/grammars list=$work/list

# distribution NAME: a source distribution of tree-sitter-NAME 1.0, whose setup.py must not run.
distribution() {
    place=$work/tree_sitter_$1-1.0
    mkdir -p "$place/src" "$work/shelf"
    printf 'Metadata-Version: 2.1\nName: tree-sitter-%s\nVersion: 1.0\n' "$1" >"$place/PKG-INFO"
    printf '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n' \
        >"$place/pyproject.toml"
    echo "open('$work/it-ran', 'w')" >"$place/setup.py"
    echo "int parser_of_$1;" >"$place/src/parser.c"
    tar -czf "$work/shelf/tree_sitter_$1-1.0.tar.gz" -C "$work" "tree_sitter_$1-1.0"
}
# entry NAME [DIGEST]: its line in the list.
entry() {
    sum=${2:-$(sha256sum "$work/shelf/tree_sitter_$1-1.0.tar.gz" | cut -d ' ' -f 1)}
    echo "tree-sitter-$1 1.0 $sum $1:src"
}
fetch() { tools/fetch_grammars.sh "$folder" "$list" 2>"$work/said"; }
said() { grep -qF -e "$1" "$work/said" || { cat "$work/said"; return 1; }; }
silent() { test ! -s "$work/said" || { cat "$work/said"; return 1; }; }
lacks_none() { ! grep '^# missing' "$1"; }
n_there() { test "$(grep -c '^GRAMMARS' "$folder/grammars.mk")" = "$1"; }

# The target that installs pip must not need it: a new user's first line would be an error.
fetches_later() {
    env -u MAKEFLAGS make -n "$1" MAKE=true GRAMMAR_DIR="$work/early" >/dev/null &&
        test ! -e "$work/early"
}
for goal in run test test-clients fuzz package; do
    check "make $goal installs before it fetches" fetches_later $goal
done

if ! python3 -m pip --version >/dev/null 2>&1; then
    skip "fetching grammars" "python3 has no pip"
    report grammars
    exit
fi
for name in good changed late; do distribution $name; done
zeros=$(printf '%064d' 0)
{ entry good; entry changed "$zeros"; entry late; } >"$list"
mv "$work/shelf/tree_sitter_late-1.0.tar.gz" "$work/late"

check "available packages are fetched" fetch
check "one can" n_there 1
check "its parser is there" grep -q parser_of_good "$folder/tree-sitter-good-1.0/src/parser.c"
check "unavailable ones are named" said "none for changed late:"
check "with the reason" said "tree-sitter-changed 1.0 is not what"
check "pip's own output is kept" test -s "$folder/log"
check "nothing of a wrong digest is kept" test ! -e "$folder/tree-sitter-changed-1.0"
check "make sees which are missing" grep -q '^# missing: tree-sitter-late' "$folder/grammars.mk"

touch -d '2001-01-01' "$folder/grammars.mk"
before=$(stat -c %Y "$folder/grammars.mk")
check "another try changes nothing" fetch
check "so make does not rebuild" test "$(stat -c %Y "$folder/grammars.mk")" = "$before"
mv "$work/late" "$work/shelf/tree_sitter_late-1.0.tar.gz"
{ entry good; entry changed; entry late; } >"$list"
check "the next try has all" fetch
check "three" n_there 3
check "and prints nothing" silent
check "none is missing any more" lacks_none "$folder/grammars.mk"
check "no package's own code ran" test ! -e "$work/it-ran"
rm "$work"/shelf/*
check "existing ones are not fetched again" fetch
check "silently" silent

# The list, the program and the rules must agree.
for name in $(awk '!/^#/ { print $1 }' tools/grammars.list); do
    check "$name is a package of a fixed digest" \
        grep -Eq "^$name [0-9.]+ [0-9a-f]{64} [a-z]+:[a-z/]+( |$)" tools/grammars.list
done
if grep -q '^# missing' build/grammars/grammars.mk; then
    skip "the grammars themselves" "some could not be fetched: make grammars"
else
    has_all() { ! ./cerium scan --test-rules 2>&1 | grep -F 'no grammar'; }
    check "this build has all of them" has_all
fi
report grammars
