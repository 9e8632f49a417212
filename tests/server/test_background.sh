#!/bin/sh
# test_background.sh - responses in the background, resumed streams (check_background.py).
. "$(dirname "$0")/check.sh"
check background "responses in the background" "$@"
