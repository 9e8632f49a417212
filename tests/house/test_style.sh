#!/bin/sh
# test_style.sh - the source obeys the style, and a source that does not is refused.
. tests/shell.sh

check "the source obeys the style" tools/check_style
check "every suite can be run" sh -c '! find tests -name "test_*.sh" ! -perm -u+x | grep .'

mkdir "$work/tree"
good='/* file.c - a file. */\nint f(void)\n{\n    return 1;\n}\n'

# refused NAME TEXT FILE CONTENT
refused() {
    rm -rf "$work/tree"
    mkdir "$work/tree"
    printf "$good" >"$work/tree/file.c"
    check "a good tree" tools/check_style "$work/tree"
    printf '%b' "$4" >"$work/tree/$3"
    check_fails "$1" "$3:$2" tools/check_style "$work/tree"
}

# lines N: N lines of code.
lines() { awk -v n="$1" 'BEGIN { while (n--) print "    x++;" }'; }

long=$(awk 'BEGIN { while (n++ < 101) printf "x" }')
refused "a tab" "2: tab" file.c '/* file.c - x */\n\tint x;\n'
refused "a blank at the end" "2: blank at the end" file.c '/* file.c - x */\nint x; \n'
refused "a carriage return" "1: carriage return" notes.md 'text\r\n'
refused "a line too long" "2: 101 columns" file.c "/* file.c - x */\n$long\n"
refused "a shell line too long" "1: 101 columns" run.sh "$long\n"
refused "no opening comment" '1: open with a comment' file.c 'int x;\n'
refused "another file's comment" '1: open with a comment' file.h '/* file.c - x */\n'
refused "a note without its issue" "2: a note of" file.c '/* file.c - x */\n/* TO''DO: x */\n'
refused "a // comment in a header" "2: comments in headers" file.h '/* file.h - x */\n// x\n'
refused "no last newline" " no newline at the end" notes.md 'text'
refused "a long function" "3: a function of 71 lines" file.c \
    "/* file.c - x */\nvoid f(void)\n{\n$(lines 71)\n}\n"
refused "a long file" " 1201 lines: at most 1200" file.h "/* file.h - x */\n$(lines 1200)\n"

printf '/* file.c - x */\nvoid f(void)\n{\n%s\n}\n' "$(lines 70)" >"$work/tree/file.c"
printf '/* file.h - x */\n/* TO''DO(#12): x; see https://example.org */\n' >"$work/tree/file.h"
check "what is barely allowed" tools/check_style "$work/tree"
report style
