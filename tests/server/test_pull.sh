#!/bin/sh
# test_pull.sh - models that the page offers, fetched from a mirror here and served (check_pull.py).
. "$(dirname "$0")/check.sh"
MAKE_MODEL=$PWD/${O:-build/release}/tool_make_model
export MAKE_MODEL
check pull "models that are fetched" "$@"
