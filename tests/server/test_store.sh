#!/bin/sh
# test_store.sh - files of the store beside a server, and its bounds (check_store.py).
. "$(dirname "$0")/check.sh"
check store "the store of the server" "$@"
