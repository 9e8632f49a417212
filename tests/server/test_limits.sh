#!/bin/sh
# test_limits.sh - tokens are reserved in the key's minute before an answer begins
# (check_limits.py).
. "$(dirname "$0")/check.sh"
check limits "limits of the server" "$@"
