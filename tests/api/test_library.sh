#!/bin/sh
# test_library.sh - the libraries export what the header declares and nothing else, and what
# `make install` leaves is enough to compile and run a program.
. tests/shell.sh

version=$(sed -n 's/^.define CERIUM_VERSION_[MP][A-Z]* //p' include/cerium.h | paste -sd.)
shared="$O/libcerium.so.$version"

# What the header declares: the name before each opening parenthesis of a CERIUM_API function.
tr '\n' ' ' <include/cerium.h | sed 's/CERIUM_API/\n&/g' |
    sed -n 's/^CERIUM_API [^(;#]*\(cerium_[a-z0-9_]*\)(.*/\1/p' | LC_ALL=C sort >"$work/declared"
nm -D --defined-only "$shared" | awk '{ print $3 }' | LC_ALL=C sort >"$work/shared"
nm -g --defined-only "$O/libcerium.a" | awk 'NF == 3 { print $3 }' | LC_ALL=C sort >"$work/static"
# Sanitizers add symbols of their own.
sed -i '/^__[a-z]*san_/d; /^__odr_asan/d' "$work/shared" "$work/static"

check "the header declares functions" grep -qx cerium_engine_open "$work/declared"
check "the shared library exports the header's functions" diff "$work/declared" "$work/shared"
check "the static library exports the header's functions" diff "$work/declared" "$work/static"
soname() { readelf -d "$shared" | grep -q "SONAME.*\[libcerium.so.${version%.*}\]"; }
check "the shared library has its name, with the minor version" soname

root=$work/root
check "make install" make --no-print-directory CC="$CC" BUILD="$BUILD" DESTDIR="$root" \
    PREFIX=/usr install
for file in bin/cerium include/cerium.h lib/libcerium.a "lib/libcerium.so.$version" \
    lib/libcerium.so lib/pkgconfig/cerium.pc share/man/man1/cerium.1; do
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
check "an older caller compiles" $CC $TEST_CFLAGS tests/api/old_caller.c \
    $(pkg-config --cflags --libs cerium) -o "$work/old_caller"
export LD_LIBRARY_PATH="$root/usr/lib"
check "its structs are left as large as it knows them" "$work/old_caller" \
    "$(ls tests/golden/fixtures/*.gguf | head -n 1)"
together() {
    "$work/together" models/cerium-line.gguf "def f(x):" "int main(" >"$work/both" 2>&1 &&
        grep -q "^1 ended: " "$work/both" && grep -q "^2 ended: " "$work/both"
}
check "several at once end" together
check_fails "the shared library loads" "usage: complete" "$work/shared_program"
check_fails "the static one needs no library" "usage: complete" \
    env -u LD_LIBRARY_PATH "$work/static_program"
report library
