#!/bin/sh
# test_replica.sh - one server of several: its name, its probes, how it leaves (check_replica.py).
. "$(dirname "$0")/check.sh"
check replica "one server of several" "$@"
