#!/bin/sh
# test_models.sh - several models in one server: chosen, loaded on demand, within a bound
# (check_models.py).
. "$(dirname "$0")/check.sh"
MAKE_MODEL=$PWD/${O:-build/release}/tool_make_model
export MAKE_MODEL
check models "several models" "$@"
