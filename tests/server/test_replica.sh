#!/bin/sh
# test_replica.sh - one server of several: its name, its probes, its shutdown (check_replica.py).
. "$(dirname "$0")/check.sh"
check replica "one server of several" "$@"
