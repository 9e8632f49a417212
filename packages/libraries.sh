#!/bin/sh
# libraries.sh - the libraries that a program needs, and those need: a line `SONAME FILE` each, the
# loader (an absolute name) first.
ldd "$1" | sed -n -e 's|^[[:blank:]]*\(/[^ ]*\) (.*|\1 \1|p' \
    -e 's|^[[:blank:]]*\([^ /]*\) => \(/[^ ]*\) (.*|\1 \2|p' | LC_ALL=C sort -u
