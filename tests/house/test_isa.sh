#!/bin/sh
# test_isa.sh - code for an instruction set that a processor may lack stays in files named for it:
# everything else must run on the oldest x86-64, or cerium dies where it should fall back.
. tests/shell.sh

objects() { find "$O/src" -name '*.o' | LC_ALL=C sort; }
uses_avx() { objdump -d --no-show-raw-insn "$1" | grep -Eq '%[yz]mm[0-9]'; }
uses_tiles() { objdump -d --no-show-raw-insn "$1" | grep -Eq '%tmm[0-9]'; }
lacks_tiles() { ! uses_tiles "$1"; }
lacks_avx() { ! uses_avx "$1"; }

if [ "$(uname -m)" = x86_64 ]; then
    for object in $(objects); do
        case $object in
        *_amx.o) check "$object uses its instruction set" uses_tiles "$object" ;;
        *_avx2.o | *_avx512vnni.o)
            check "$object uses its instruction set" uses_avx "$object"
            check "$object runs without AMX" lacks_tiles "$object" ;;
        *) check "$object runs on any x86-64" lacks_avx "$object" ;;
        esac
    done
else
    skip "instruction sets of x86" "this is not x86-64"
fi
report isa
