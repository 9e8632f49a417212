#!/bin/sh
# test_shapes.sh - schemas of answers (check_shapes.py).
. "$(dirname "$0")/check.sh"
check shapes "schemas of answers" "$@"
