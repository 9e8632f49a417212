#!/bin/sh
# test_digest.sh - digests and records of answers, and who has none (check_digest.py).
. "$(dirname "$0")/check.sh"
check digest "digests of the server" "$@"
