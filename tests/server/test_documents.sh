#!/bin/sh
# test_documents.sh - texts that are open at the server (check_documents.py).
. "$(dirname "$0")/check.sh"
check documents "texts that are open at the server" "$@"
