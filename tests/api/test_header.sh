#!/bin/sh
# test_header.sh - the public header is self-contained in every dialect, and the examples need only
# it.
. tests/shell.sh

# compiles COMPILER STANDARD FILE: as a user's strictest build would.
compiles() {
    "$1" -std="$2" -Wall -Wextra -Wpedantic -Wconversion -Werror -Iinclude -fsyntax-only "$3"
}
only_public_headers() { ! grep -n '#include "' "$1"; }
short() { [ "$(wc -l <"$1")" -le 80 ]; }

printf '#include <cerium.h>\nint x;\n' >"$work/header.c"
cp "$work/header.c" "$work/header.cpp"

for compiler in gcc clang-14; do
    if ! command -v "$compiler" >/dev/null; then
        skip "the header with $compiler" "it is not installed"
        continue
    fi
    for standard in c99 c11 c17; do
        check "header, $compiler -std=$standard" compiles "$compiler" "$standard" "$work/header.c"
        for example in examples/*.c; do
            check "$example, $compiler -std=$standard" compiles "$compiler" "$standard" "$example"
        done
    done
done
for compiler in g++ clang++-14; do
    if command -v "$compiler" >/dev/null; then
        check "header, $compiler" compiles "$compiler" c++17 "$work/header.cpp"
    else
        skip "the header with $compiler" "it is not installed"
    fi
done
for example in examples/*.c; do
    check "$example includes only public headers" only_public_headers "$example"
    check "$example is short" short "$example"
done
printf '#include <cerium.h>\nint x = CERIUM_NOTHING;\n' >"$work/wrong.c"
check_fails "a wrong program is refused" CERIUM_NOTHING compiles gcc c17 "$work/wrong.c"
report header
