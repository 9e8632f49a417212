#!/bin/bash
set -e
cd /app
sha256sum -c --quiet - <<'END'
8d22e46d3d26fcbc907ccd49255fd6542e5968d101f14518902e9f924b575354  circle.c
4497de0a855499582f95b2e502cfb2a782b431362090584284ca65b515b19bd3  circle.h
2b1b05ee012e154f26e07d9950dabc222a4690d989af5dda3d7ac31f5b970970  main.c
END
make clean
make >/tmp/said 2>&1
if grep -i warning /tmp/said; then exit 1; fi
test "$(./area 2)" = 12.57
test "$(./area)" = 3.14
touch circle.c
make | grep circle
