#!/bin/sh
# test_usage.sh - every end of an answer costs what its client, the log and the metrics are told
# (check_usage.py).
. "$(dirname "$0")/check.sh"
check usage "usage of the server" "$@"
