#!/bin/sh
# fill.sh - a text with @NAMES@ filled in: version, addresses, and the digests of what is in FOLDER.
#
#   packages/fill.sh FOLDER VERSION RELEASES <TEXT.in >TEXT
set -eu
out=$1 version=$2 releases=$3
digest() { if [ -e "$1" ]; then sha256sum "$1" | cut -d ' ' -f 1; fi; }
# The C library that the program was linked with; an older one lacks what it calls.
minor=$(getconf GNU_LIBC_VERSION | sed 's/.* 2\.//; s/\..*//')
sed -e "s|@VERSION@|$version|g" -e "s|@RELEASES@|$releases|g" -e "s|@GLIBC_MINOR@|$minor|g" \
    -e "s|@SHA256_x86_64@|$(digest "$out/cerium-$version-linux-x86_64.tar.gz")|" \
    -e "s|@SHA256_aarch64@|$(digest "$out/cerium-$version-linux-aarch64.tar.gz")|" \
    -e "s|@SHA256_SOURCE@|$(digest "$out/cerium-$version.tar.gz")|"
