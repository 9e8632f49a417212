#!/bin/sh
# test_keys.sh - keys, tiers, limits and usage (check_keys.py).
. "$(dirname "$0")/check.sh"
check keys "keys of the server" "$@"
