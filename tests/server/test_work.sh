#!/bin/sh
# test_work.sh - long work is done beside the event loop, in order (check_work.py).
. "$(dirname "$0")/check.sh"
check work "the server's threads" "$@"
