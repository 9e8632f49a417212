#!/bin/sh
# test_thoughts.sh - thoughts have budgets, in every API (check_thoughts.py).
. "$(dirname "$0")/check.sh"
check thoughts "budgets of thoughts" "$@"
