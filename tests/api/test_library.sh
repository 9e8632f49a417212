#!/bin/sh
# test_library.sh - the libraries export what the header declares and nothing else, and the
# files of `make install` are enough to compile and run a program.
. tests/shell.sh

version=$(sed -n 's/^.define CERIUM_VERSION_[MP][A-Z]* //p' include/cerium.h | paste -sd.)

# exports LIBRARY WORD: the functions that the header declares with WORD, and nothing else: the name
# before each opening parenthesis.
exports() {
    shared="$O/$1.so.$version"
    tr '\n' ' ' <include/cerium.h | sed "s/$2/\n&/g" |
        sed -n "s/^$2 [^(;#]*\(cerium_[a-z0-9_]*\)(.*/\1/p" | LC_ALL=C sort >"$work/declared"
    nm -D --defined-only "$shared" | awk '{ print $3 }' | LC_ALL=C sort >"$work/shared"
    nm -g --defined-only "$O/$1.a" | awk 'NF == 3 { print $3 }' | LC_ALL=C sort >"$work/static"
    # Sanitizers add symbols of their own.
    sed -i '/^__[a-z]*san_/d; /^__odr_asan/d' "$work/shared" "$work/static"
    check "the header declares functions of $1" grep -qx "$3" "$work/declared"
    check "$1.so exports the header's functions" diff "$work/declared" "$work/shared"
    check "$1.a exports the header's functions" diff "$work/declared" "$work/static"
    check "$1.so has its name, with the minor version" \
        sh -c "readelf -d $shared | grep -q 'SONAME.*\[$1.so.${version%.*}\]'"
}
exports libcerium CERIUM_API cerium_engine_open
exports libcerium-watch CERIUM_WATCH_API cerium_watch_open
small() { readelf -d "$O/libcerium.so.$version" | grep NEEDED >"$work/needed"
    ! grep -E 'libhs|tree-sitter|yaml' "$work/needed"; }
check "libcerium needs nothing of the watchdog's" small
# Built for another target first, it would get that one's libraries if those were not private.
apart() { make -n -W src/base/base.c BUILD="$BUILD" "$O/libcerium-watch.so.$version" |
    grep -e "-soname,libcerium.so" >"$work/link" && ! grep -e '-lhs' "$work/link"; }
check "nor when it is built for the watchdog's library" apart

root=$work/root
check "make install" make --no-print-directory CC="$CC" BUILD="$BUILD" DESTDIR="$root" \
    PREFIX=/usr install
for file in bin/cerium include/cerium.h lib/libcerium.a "lib/libcerium.so.$version" \
    lib/libcerium.so lib/pkgconfig/cerium.pc lib/libcerium-watch.a lib/libcerium-watch.so \
    "lib/libcerium-watch.so.$version" lib/pkgconfig/cerium-watch.pc share/man/man1/cerium.1; do
    check "installs $file" test -s "$root/usr/$file"
done
for model in models/*.gguf; do
    [ -e "$model" ] || continue
    check "installs $model" cmp "$model" "$root/usr/share/cerium/models/$(basename "$model")"
done

export PKG_CONFIG_PATH="$root/usr/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root"
check "pkg-config knows the version" test "$(pkg-config --modversion cerium)" = "$version"
# The words of pkg-config are several, on purpose.
check "a program links with the shared library" $CC $TEST_CFLAGS examples/complete.c \
    $(pkg-config --cflags --libs cerium) -o "$work/shared_program"
check "a program links with the static library" $CC $TEST_CFLAGS examples/complete.c \
    $(pkg-config --cflags cerium) "$root/usr/lib/libcerium.a" \
    $(pkg-config --libs-only-l --static cerium | sed 's/-lcerium//') -o "$work/static_program"
check "several at once link, too" $CC $TEST_CFLAGS examples/together.c \
    $(pkg-config --cflags --libs cerium) -o "$work/together"
check "a program with tools links" $CC $TEST_CFLAGS examples/tools.c \
    $(pkg-config --cflags --libs cerium) -o "$work/tools"
check "a watched one links with the shared libraries" $CC $TEST_CFLAGS examples/watched.c \
    $(pkg-config --cflags --libs cerium-watch) -o "$work/watched"
check "a watched one links with the static libraries" $CC $TEST_CFLAGS examples/watched.c \
    $(pkg-config --cflags cerium-watch) "$root/usr/lib/libcerium-watch.a" \
    "$root/usr/lib/libcerium.a" \
    $(pkg-config --libs-only-l --static cerium-watch | sed 's/-lcerium-watch//; s/-lcerium//') \
    -o "$work/static_watched"
check "an older caller compiles" $CC $TEST_CFLAGS tests/api/old_caller.c \
    $(pkg-config --cflags --libs cerium-watch) -o "$work/old_caller"
export LD_LIBRARY_PATH="$root/usr/lib"
check "the library respects its smaller structs" "$work/old_caller" \
    "$(ls tests/golden/fixtures/*.gguf | head -n 1)"
together() {
    "$work/together" models/cerium-line.gguf "def f(x):" "int main(" >"$work/both" 2>&1 &&
        grep -q "^1 ended: " "$work/both" && grep -q "^2 ended: " "$work/both"
}
check "several at once end" together
weak='import os
def run(command):
    os.system('
# The line that the model writes is weak: it is retracted, and no such line is shown.
watched() {
    "$1" models/cerium-line.gguf rules "$weak" >"$work/said" 2>"$work/found" &&
        grep -q "^line 1: " "$work/found"
}
check "a watched completion" watched "$work/watched"
check "the same, linked statically" env -u LD_LIBRARY_PATH sh -c \
    '"$1" models/cerium-line.gguf rules "$2" 2>/dev/null | cmp - "$3"' - "$work/static_watched" \
    "$weak" "$work/said"
check "tools: an answer" sh -c "'$work/tools' tests/golden/fixtures/gpt-oss.gguf 'What time?' \
    >'$work/answer' && test -s '$work/answer'"
# parts WANT FORM TEXT [STOP]: the parts that a reader of the shared library finds in a text.
parts() {
    want=$1 form=$2 text=$3
    shift 3
    test "$(printf '%s' "$text" | "$work/parts" "$form" "$@" | tr '\n' '|')" = "$want"
}
check "a reader links" $CC $TEST_CFLAGS tests/api/parts.c $(pkg-config --cflags --libs cerium) \
    -o "$work/parts"
call='<tool_call>
{"name": "add", "arguments": {"a": 1}}
</tool_call>'
check "a reader: a thought, text and a call" \
    parts 'thought: Hm.|text: Well.|call: add|arguments: {"a": 1}|end: |' qwen3 \
    "<think>Hm.</think>Well.$call"
check "a reader: a stop" parts 'text: on|stopped|' chatml 'one two' e
check_fails "a reader without a form" "no reader, call form or tools" "$work/parts"
check_fails "the shared library loads" "usage: complete" "$work/shared_program"
check_fails "the static one needs no library" "usage: complete" \
    env -u LD_LIBRARY_PATH "$work/static_program"
report library
