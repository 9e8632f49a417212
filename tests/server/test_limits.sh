#!/bin/sh
# test_limits.sh - what an answer may have is taken from its key's minute before it begins
# (check_limits.py).
. "$(dirname "$0")/check.sh"
check limits "limits of the server" "$@"
