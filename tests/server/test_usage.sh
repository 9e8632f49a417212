#!/bin/sh
# test_usage.sh - for every end of an answer, the client, the log and the metrics get its cost
# (check_usage.py).
. "$(dirname "$0")/check.sh"
check usage "usage of the server" "$@"
