#!/bin/sh
# test_completions.sh - code at the caret (check_completions.py).
. "$(dirname "$0")/check.sh"
check completions "code at the caret" "$@"
