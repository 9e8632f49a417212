#!/bin/sh
# test_lsp.sh - the language server over its pipes, as editors speak to it.
command -v python3 >/dev/null || {
    echo "skipped: the language server: there is no python3"
    echo "lsp: 0 passed, 0 failed"
    exit 0
}
. tests/shell.sh
# The protocol's types, as its makers' meta model has them, judge every message.
python_with build/lsp-types "lsprotocol.types" lsprotocol==2025.0.0 || {
    skip "messages against the protocol's types" "$why"
    python=python3
}
exec "$python" tests/lsp/check_lsp.py ./cerium
