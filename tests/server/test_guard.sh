#!/bin/sh
# test_guard.sh - the watchdog in the server's answers, by key, tier and request (check_guard.py).
. "$(dirname "$0")/check.sh"
if ./cerium scan /dev/null 2>&1 | grep -q 'no grammar for python'; then
    echo "skipped: the watchdog in the server: this build has no grammars"
    echo "guard in the server: 0 passed, 0 failed"
    exit 0
fi
check guard "the watchdog in the server" "$@"
