#!/bin/sh
# test_transport.sh - what goes over the wire, and hostile clients (check_transport.py).
. "$(dirname "$0")/check.sh"
check transport "the transport" "$@"
