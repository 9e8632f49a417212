#!/bin/sh
# test_layers.sh - the source obeys layers.txt, and a source that does not is refused.
. tests/shell.sh

check "the source obeys layers.txt" tools/check_layers

# refused NAME TEXT FILE CONTENT: a tree with one more file.
refused() {
    rm -rf "$work/tree"
    mkdir -p "$work/tree/src/base" "$work/tree/src/engine/x86" "$work/tree/src/other"
    printf 'base:\nengine: base\n' >"$work/tree/layers.txt"
    printf '#include "base/base.h"\n' >"$work/tree/src/base/base.c"
    printf '#include "base/base.h"\n#include "cerium.h"\n' >"$work/tree/src/engine/engine.c"
    check "a good tree" tools/check_layers "$work/tree"
    printf '%b' "$4" >"$work/tree/$3"
    check_fails "$1" "$2" tools/check_layers "$work/tree"
}

refused "an include upwards" "src/base/low.c:2: base may not include engine" \
    src/base/low.c '\n#include "engine/engine.h"\n'
refused "an include with blanks" "src/base/low.c:1: base may not include engine" \
    src/base/low.c '  #  include  "engine/engine.h"\n'
refused "an include of an unknown folder" "engine may not include guard" \
    src/engine/x86/fast.c '#include "guard/guard.h"\n'
refused "an include without its folder" 'write "base/base.h", not "base.h"' \
    src/base/low.c '#include "base.h"\n'
refused "an unknown folder" "folder other is not in layers.txt" src/other/other.c '\n'
refused "a file without a folder" "src/main.c: every file has a folder" src/main.c '\n'
refused "two files of one name" "the name is also that of src/base/base.c" src/engine/base.c '\n'
refused "a folder that depends upwards" "base may not depend on engine" \
    layers.txt 'base: engine\nengine: base\n'
refused "a folder twice" "base is listed twice" layers.txt 'base:\nengine: base\nbase:\n'
report layers
