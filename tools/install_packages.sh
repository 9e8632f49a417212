#!/bin/sh
# install_packages.sh - install the missing packages of tools/packages.txt.
#
#   tools/install_packages.sh build         packages for compiling: fails if unavailable
#   tools/install_packages.sh build test    and packages for some tests, which are skipped without
#   tools/install_packages.sh test-clients  packages for the tests of real clients
#   tools/install_packages.sh --list build  only print the names
#
# If everything is installed it needs no network and no time.  Otherwise it uses apt-get as
# root, and prints the one command to run as another user.
here=$(dirname "$0")
list=
if [ "$1" = --list ]; then
    list=yes
    shift
fi

# packages PURPOSE: lines of package, kind, thing.
packages() {
    awk -v purpose="$1" '!/^#/ && $2 == purpose { print $1, $3, $4 }' "$here/packages.txt"
}

has() {
    case $1 in
    command) command -v "$2" ;;
    # Only in the compiler's paths: /usr/include/node has a uv.h, too.
    header) ls "/usr/include/$2" /usr/include/*-linux-gnu*/"$2" \
        "/usr/local/include/$2" 2>&1 | grep -v : ;;
    file) ls -d $2 ;; # a pattern, on purpose
    esac
}

missing() {
    packages "$1" | while read -r package kind thing; do
        has "$kind" "$thing" >/dev/null 2>&1 || printf '%s ' "$package"
    done
}

# Quiet, unless it fails.
install() {
    export DEBIAN_FRONTEND=noninteractive
    echo "installing: $*" >&2
    log=$(mktemp)
    apt-get -q update >"$log" 2>&1
    apt-get -q install --no-install-recommends -y "$@" >>"$log" 2>&1 || tail -n 20 "$log" >&2
    rm -f "$log"
}

status=0
for purpose; do
    if [ "$list" ]; then
        packages "$purpose" | cut -d ' ' -f 1
        continue
    fi
    names=$(missing "$purpose")
    [ -z "$names" ] && continue
    # The list has no quotes, on purpose: it is several words.
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then install $names; fi
    names=$(missing "$purpose")
    [ -z "$names" ] && continue
    echo "to $purpose, install what is missing: sudo apt-get install $names" >&2
    [ "$purpose" = build ] && status=1
done
exit $status
