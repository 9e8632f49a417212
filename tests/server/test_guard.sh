#!/bin/sh
# test_guard.sh - the watchdog in the server's answers, by key, tier and request (check_guard.py).
. "$(dirname "$0")/check.sh"
check guard "the watchdog in the server" "$@"
