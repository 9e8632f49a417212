#!/bin/sh
# test_upstream.sh - requests that another server answers (check_upstream.py).
. "$(dirname "$0")/check.sh"
check upstream "upstreams" "$@"
