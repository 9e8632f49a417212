#!/bin/sh
# test_parameters.sh - published parameters are used, refused or named (check_parameters.py).
. "$(dirname "$0")/check.sh"
check parameters "published parameters" "$@"
