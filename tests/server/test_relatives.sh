#!/bin/sh
# test_relatives.sh - the kin of inputs that once failed, in every API (check_relatives.py).
. "$(dirname "$0")/check.sh"
check relatives "relatives of inputs that failed" "$@"
