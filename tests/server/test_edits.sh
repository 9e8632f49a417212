#!/bin/sh
# test_edits.sh - edits that a model predicts (check_edits.py).
. "$(dirname "$0")/check.sh"
check edits "edits that a model predicts" "$@"
