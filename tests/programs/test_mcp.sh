#!/bin/sh
# test_mcp.sh - the tools for agents over their pipes, as agents speak to them.
command -v python3 >/dev/null || {
    echo "skipped: tools for agents: there is no python3"
    echo "mcp: 0 passed, 0 failed"
    exit 0
}
. tests/shell.sh
export CERIUM_RULES=$PWD/rules CERIUM_CACHE=off
python_with build/mcp "mcp" mcp==2.3.0 || {
    skip "the mcp package's client" "$why"
    python=python3
}
exec "$python" tests/programs/check_mcp.py ./cerium
