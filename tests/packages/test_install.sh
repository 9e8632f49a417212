#!/bin/sh
# test_install.sh - install.sh and the archive that it installs, and the text of the formula.
. tests/shell.sh
. tests/packages/stage.sh

made=$work/made
if [ "$PACKAGES" ]; then
    mkdir "$made" && cp "$PACKAGES"/cerium-"$version"-linux-*.tar.gz "$made/"
else
    check "an archive is made" packages/archive.sh "$stage" "$O/cerium_portable" "$made" "$version"
fi
cp -r "$stage" "$work/lost" && rm -r "$work/lost/usr/share"
for package in archive image deb; do
    check_fails "no $package is made of a stage that lost files" "lacks usr/share/" \
        "packages/$package.sh" "$work/lost" "$work/none" "$work/none" "$version"
done
archive=$(ls "$made"/cerium-*.tar.gz)
fill() { packages/fill.sh "$made" "$version" "$made" <"packages/$1.in" >"$made/$1"; }
check "install.sh has the digests" fill install.sh
check "nothing is left to fill in" sh -c "! grep -n '@[A-Z_0-9a-z]*@' '$made/install.sh'"
check "it is short" test "$(wc -l <"$made/install.sh")" -le 140
if command -v shellcheck >/dev/null; then
    check "shellcheck has no complaint" shellcheck "$made/install.sh" packages/*.sh
else
    skip "shellcheck" "it is not installed"
fi

home=$work/home
mkdir "$home"
install() { env -i HOME="$home" PATH="$PATH" sh "$made/install.sh" "$@"; }
check "it installs" status 0 install
check "and prints where" says "$home/.local/bin"
bare() { env -i "$@"; }
check "the program runs" bare "$home/.local/bin/cerium" run --raw --quiet -n 4 -p 'def add('
private() {
    program=$(readlink -f "$home/.local/bin/cerium")
    ldd "$program" | grep libhs | grep -q "$home/.local/lib/cerium"
}
check "with its own libraries" private
check "the man page is there" test -s "$home/.local/share/man/man1/cerium.1"
check "and once more, over itself" install
mkdir -p "$home/.local/lib/cerium/0.0.1"
check "an older version is replaced" install
check "and removed" test ! -e "$home/.local/lib/cerium/0.0.1"
rm "$home/.local/bin/cerium"
echo mine >"$home/.local/bin/cerium"
check "it is uninstalled" install --uninstall
check "foreign files stay" grep -qx mine "$home/.local/bin/cerium"
check "and nothing else" test "$(find "$home" -type f -o -type l | wc -l)" = 1

# After any fault, nothing is installed.
nothing() { test ! -e "$work/none/lib" && test ! -e "$work/none/bin"; }
mkdir "$work/wrong"
cp "$archive" "$work/wrong/"
printf x >>"$work/wrong/$(basename "$archive")"
check_fails "an archive that was changed" "nothing was installed" \
    install --from "$work/wrong" --prefix "$work/none"
check "installs nothing" nothing
check_fails "a folder without it" "is not there" install --from "$work" --prefix "$work/none"
check_fails "an address where nobody is" "cannot fetch" \
    install --from http://127.0.0.1:9 --prefix "$work/none"
check_fails "half a path" "whole path" install --prefix none
check_fails "an unknown option" "usage" install --fly
size=$(wc -c <"$made/install.sh")
for part in 1 2 3 4 5 6 7 8 9; do
    head -c $((size * part / 10)) "$made/install.sh" >"$work/half.sh"
    env -i HOME="$work/none" PATH="$PATH" sh "$work/half.sh" --from "$made" --prefix "$work/none" \
        >/dev/null 2>&1
    check "a script truncated at $part tenths does nothing" nothing
done

: >"$made/cerium-$version.tar.gz"
check "the formula has a digest" fill cerium.rb
check "and nothing to fill in" sh -c "! grep -n '@[A-Z_0-9a-z]*@' '$made/cerium.rb'"
if command -v ruby >/dev/null; then
    check "ruby reads it" ruby -c "$made/cerium.rb"
else
    skip "the formula's syntax" "there is no ruby"
fi
# The formula depends on the packages that compiling needs here.
for package in $(tools/install_packages.sh --list build); do
    case $package in
    gcc | make | libc6-dev | python3-pip) continue ;;
    pkg-config) name=pkgconf ;;
    libseccomp-dev) name=libseccomp ;;
    libpcre2-dev) name=pcre2 ;; libsqlite3-dev) name=sqlite ;; libuv1-dev) name=libuv ;;
    node-llhttp) name=llhttp ;; libssl-dev) name=openssl ;; libinih-dev) name=inih ;;
    libcurl4-openssl-dev) name=curl ;; libyaml-dev) name=libyaml ;; libedit-dev) name=libedit ;;
    *) name=${package#lib} name=${name%-dev} ;;
    esac
    check "the formula has $name" grep -q "depends_on \"$name[\"@]" "$made/cerium.rb"
done
report install
