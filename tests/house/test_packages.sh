#!/bin/sh
# test_packages.sh - the list of packages is in one place, and the README shows it.
. tests/shell.sh

build=$(tools/install_packages.sh --list build | tr '\n' ' ' | sed 's/ $//')
shows() { grep -qxF "sudo apt-get install $build" README.md; }
check "the README shows the build packages" shows

# On a machine without any of it, as a user who is not root.
mkdir "$work/bin"
for tool in sh awk cut dirname ls grep; do ln -s "$(command -v "$tool")" "$work/bin/$tool"; done
printf '#!/bin/sh\necho 1000\n' >"$work/bin/id"
chmod +x "$work/bin/id"
check_fails "without root it prints the command" \
    "to build, install what is missing: sudo apt-get install gcc make pkg-config" \
    env PATH="$work/bin" tools/install_packages.sh build
check "missing test packages are not an error" env PATH="$work/bin" tools/install_packages.sh test

# With everything there it must not ask apt-get.
printf '#!/bin/sh\ntouch "$CALLED"\n' >"$work/bin/apt-get"
printf '#!/bin/sh\necho 0\n' >"$work/bin/id"
for tool in gcc make pkg-config touch; do
    rm -f "$work/bin/$tool"
    printf '#!/bin/sh\n' >"$work/bin/$tool"
    chmod +x "$work/bin/$tool"
done
chmod +x "$work/bin/apt-get"
rm "$work/bin/touch"
ln -s "$(command -v touch)" "$work/bin/touch"
CALLED=$work/called
export CALLED
check "with everything there" env PATH="$work/bin" tools/install_packages.sh build
check "apt-get is not asked" test ! -e "$work/called"
rm "$work/bin/make"
check "with something missing, as root" env PATH="$work/bin" tools/install_packages.sh build
check "apt-get is asked" test -e "$work/called"
report packages
