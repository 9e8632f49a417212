#!/bin/sh
# test_dialect_relatives.sh - odd requests in every API (check_dialect_relatives.py).
. "$(dirname "$0")/check.sh"
check dialect_relatives "odd requests in every API" "$@"
