#!/bin/sh
# test_arm64.sh - the kernels of 64-bit Arm, cross-compiled, give the bits of the reference there:
# qemu runs the check.  Once is enough: builds with sanitizers skip it.
. tests/shell.sh

name="kernels of 64-bit Arm"
if [ "$BUILD" != release ]; then
    skip "$name" "the release build checks them"
elif ! command -v aarch64-linux-gnu-gcc >/dev/null; then
    skip "$name" "gcc-aarch64-linux-gnu was not there"
elif ! command -v qemu-aarch64 >/dev/null; then
    skip "$name" "qemu-user was not there"
else
    passes() {
        qemu-aarch64 build/release-aarch64-linux-gnu-gcc/kernelcheck --short >"$work/kernels" 2>&1
        passes_status=$?
        cat "$work/kernels"
        return $passes_status
    }
    check "kernelcheck --short under qemu" passes
    check "with and without dot products" test -z "$(grep "^skipped: " "$work/kernels")"
fi
report arm64
