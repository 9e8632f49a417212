#!/bin/sh
# test_links.sh - the objects obey layers.txt and links.txt, and a build that differs is
# refused.
. tests/shell.sh

# Objects of the x86 kernels are in the listed circles.
if [ "$(uname -m)" = x86_64 ]; then
    check "the objects obey layers.txt and links.txt" tools/check_links "$O"
else
    skip "the objects and links.txt" "this is not x86-64"
fi

# tree: a good tree of two folders, built.  Each case appends a fault to one of its files.
tree() {
    rm -rf "$work/tree"
    mkdir -p "$work/tree/src/base" "$work/tree/src/engine" "$work/tree/src/watch" \
        "$work/tree/tests"
    cd "$work/tree" || exit 2
    printf 'base:\nengine: base\nwatch: base cerium.h\n' >layers.txt
    printf 'for-tests: fail_at\n' >links.txt
    printf 'void low(void) {}\nvoid fail_at(void) {}\n' >src/base/low.c
    printf 'void low(void);\nvoid cerium_run(void) { low(); }\nvoid own(void) { low(); }\n' \
        >src/engine/run.c
    printf 'void own(void);\nvoid cerium_go(void) { own(); }\n' >src/engine/go.c
    printf 'void cerium_run(void);\nvoid cerium_watch(void) { cerium_run(); }\n' >src/watch/watch.c
    printf 'fail_at(); helper();\n' >tests/test.c
    cd - >/dev/null || exit 2
}
build() {
    for file in "$work"/tree/src/*/*.c; do
        object=$work/tree/build/${file#"$work"/tree/}
        mkdir -p "${object%/*}"
        ${CC:-cc} -c "$file" -o "${object%.c}.o" || return 1
    done
}
links() { build && tools/check_links build "$work/tree"; }

tree
check "a good tree" links
check_fails "no objects" "no nowhere/src/base/low.o: run make" \
    tools/check_links nowhere "$work/tree"

# refused NAME TEXT FILE LINE...: a tree where lines are appended to a file.
refused() {
    tree
    refused_name=$1 refused_text=$2 refused_file=$3
    shift 3
    printf '%s\n' "$@" >>"$work/tree/$refused_file"
    check_fails "$refused_name" "$refused_text" links
}
refused "a call upwards that no include shows" \
    "src/base/low.c: base may not use cerium_run of src/engine/run.c" \
    src/base/low.c 'void cerium_run(void);' 'void cerium_low(void) { cerium_run(); }'
refused "a way around the public header" "src/watch/watch.c: watch may not use own of src/engine" \
    src/watch/watch.c 'void own(void);' 'void cerium_own(void) { own(); }'
refused "a circle" "src/engine/run.c: in a new circle of files, through engine/go.c" \
    src/engine/run.c 'void cerium_go(void);' 'void cerium_again(void) { cerium_go(); }'
refused "a circle that is gone" "links.txt:2: the circle got smaller: list none" \
    links.txt 'circle: engine/run.c engine/go.c'
refused "a global of one file" "src/engine/go.c: only this file uses count: make it static" \
    src/engine/go.c 'int count(void) { return 1; }' 'int cerium_count(void) { return count(); }'
refused "a global of nobody" "src/engine/go.c: nothing uses unused: remove it" \
    src/engine/go.c 'void unused(void) {}'
refused "a global of tests" "src/base/low.c: only tests use helper: remove it" \
    src/base/low.c 'void helper(void) {}'
refused "a word that links.txt does not know" "links.txt:2: write circle: or for-tests:" \
    links.txt 'circles: a.c'
refused "a test hook that is gone" "links.txt:2: gone is not for tests alone" \
    links.txt 'for-tests: gone'

# A listed circle that grows.
tree
printf 'circle: engine/run.c engine/go.c\n' >>"$work/tree/links.txt"
printf 'void cerium_go(void);\nvoid cerium_again(void) { cerium_go(); }\n' \
    >>"$work/tree/src/engine/run.c"
check "a circle that is listed" links
printf 'void cerium_go(void);\nvoid third(void) { cerium_go(); }\n' >"$work/tree/src/engine/third.c"
printf 'void third(void);\nvoid cerium_more(void) { third(); }\n' >>"$work/tree/src/engine/run.c"
check_fails "a file that joins a circle" "src/engine/third.c: in a new circle of files" links
report links
