#!/bin/sh
# test_signs.sh - signs of life of a stream (check_signs.py).
. "$(dirname "$0")/check.sh"
check signs "signs of life of a stream" "$@"
