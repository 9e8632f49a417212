#!/bin/sh
# test_demo.sh - what make run shows (check_demo.py).
. "$(dirname "$0")/check.sh"
check demo "what make run shows" "$@"
