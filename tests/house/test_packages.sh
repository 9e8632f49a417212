#!/bin/sh
# test_packages.sh - the list of packages is in one place, and the README shows it.
. tests/shell.sh

build=$(tools/install_packages.sh --list build | tr '\n' ' ' | sed 's/ $//')
shows() { grep -qxF "sudo apt-get install $build" README.md; }
check "the README shows the build packages" shows

# On a machine without any of the packages, as an ordinary user.
mkdir "$work/bin"
for tool in sh awk cut dirname grep ln ls mktemp rm tail touch; do
    ln -s "$(command -v "$tool")" "$work/bin/$tool"
done
printf '#!/bin/sh\necho 1000\n' >"$work/bin/id"
chmod +x "$work/bin/id"
check_fails "without root it prints the command" \
    "to build, install what is missing: sudo apt-get install gcc make pkg-config" \
    env PATH="$work/bin" tools/install_packages.sh build
check "missing test packages are not an error" env PATH="$work/bin" tools/install_packages.sh test

# As root, with everything there: apt-get must not be called.
cat >"$work/bin/apt-get" <<'END'
#!/bin/sh
touch "$work/called"
if [ "$apt_works" ]; then ln -sf "$work/bin/true" "$work/bin/make"; fi
END
printf '#!/bin/sh\necho 0\n' >"$work/bin/id"
printf '#!/bin/sh\n' >"$work/bin/true"
for tool in gcc make pkg-config pip3 bwrap; do ln -s "$work/bin/true" "$work/bin/$tool"; done
chmod +x "$work/bin/apt-get" "$work/bin/true"
export work
check "with everything there" env PATH="$work/bin" tools/install_packages.sh build
check "apt-get is not called" test ! -e "$work/called"
rm "$work/bin/make"
check_fails "what apt-get cannot install is an error" "sudo apt-get install make" \
    env PATH="$work/bin" tools/install_packages.sh build
check "apt-get was called" test -e "$work/called"
check "packages that apt-get installs are found" env PATH="$work/bin" apt_works=yes \
    tools/install_packages.sh build
report packages
