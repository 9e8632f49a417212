#!/bin/sh
# test_docs.sh - documents agree with the tree: links, the man page, make help.
. tests/shell.sh

# Relative links of a page lead to files.
links() {
    folder=$(dirname "$1") broken=0
    for link in $(grep -Eo '\]\([^)#: ]+[)#]' "$1" | sed 's/^..//; s/.$//'); do
        [ -e "$folder/$link" ] || { echo "$1: $link does not exist"; broken=1; }
    done
    return $broken
}
for page in *.md docs/*.md docs/*/*.md training/*.md tests/*/*.md; do
    [ -e "$page" ] && check "links of $page" links "$page"
done

# The map names only files that exist.
named() {
    broken=0 folders='src|tests|docs|web|tools|include|rules'
    for file in $(grep -Eo "\`($folders)/[A-Za-z0-9_/.-]+\`" "$1" | tr -d '`'); do
        [ -e "$file" ] || { echo "$1: $file does not exist"; broken=1; }
    done
    return $broken
}
for page in docs/ARCHITECTURE.md CONTRIBUTING.md docs/glossary.md; do
    check "files that $page names" named "$page"
done

# The index of decisions has every page, by its own title.
indexed() {
    name=$(basename "$1")
    title=$(sed -n '1s/^# [0-9]*: //p' "$1")
    grep -qF "| [${name%%-*}]($name) | $title |" docs/decisions/README.md
}
for page in docs/decisions/[0-9]*.md; do
    check "$page is in the index, by its title" indexed "$page"
done

# The last column of a glossary names files and folders; all of them exist.
places() {
    missing=0
    for path in $(sed -n 's/.*| \(.*\) |$/\1/p' "$1" | grep -o '`[^`]*`' | tr -d '`'); do
        [ -e "$path" ] || { echo "$1: $path is not there"; missing=1; }
    done
    return $missing
}
check "every path in the glossary exists" places docs/glossary.md
echo '| word | meaning | `src/engine`, `src/nowhere.c` |' >"$work/glossary.md"
check_fails "a wrong path is found" "src/nowhere.c is not there" places "$work/glossary.md"

if command -v mandoc >/dev/null; then
    check "the man page has no errors" mandoc -T lint man/cerium.1
    check_fails "a faulty man page is refused" "man.1" sh -c \
        "echo .Xx >$work/man.1; mandoc -T lint $work/man.1"
else
    skip "the man page" "mandoc is not installed"
fi

tools/make_man.sh ./cerium >"$work/cerium.1"
check "the man page is made from the commands' tables (make man)" cmp "$work/cerium.1" man/cerium.1

MAKEFLAGS= make --no-print-directory help >"$work/help"
for target in run test bench fuzz install clean help; do
    check "make help has $target" grep -q "^make $target " "$work/help"
done
version=$(sed -n 's/^.define CERIUM_VERSION_[MP][A-Z]* //p' include/cerium.h | paste -sd.)
check "cerium --version is that of the header" test "$(./cerium --version)" = "cerium $version"
check "the changelog has the version" grep -q "$version" CHANGELOG.md
rules=$(./cerium scan --test-rules 2>&1 | sed -n 's/^rules: \([0-9]* rules\),.*/\1/p')
check "README counts the watchdog's rules, ${rules:-none}" grep -q "${rules:-no count}" README.md
report docs
