#!/bin/sh
# test_server.sh - the server itself, spoken to in raw HTTP and WebSocket (check_server.py).
. "$(dirname "$0")/check.sh"
check server "the server" "$@"
