#!/bin/sh
# test_renames.sh - next edits after a rename, beside Python's symbol table and clang's tree.
command -v python3 >/dev/null || {
    echo "skipped: renames: there is no python3"
    echo "renames: 0 passed, 0 failed"
    exit 0
}
exec python3 tests/lsp/check_renames.py ./cerium "${NAMES:-20}"
