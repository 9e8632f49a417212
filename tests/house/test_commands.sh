#!/bin/sh
# test_commands.sh - every command of README.md, docs/*.md and the man page (commands.py).
command -v python3 >/dev/null || {
    echo "skipped: the commands of the documents: there is no python3"
    echo "commands: 0 passed, 0 failed"
    exit 0
}
exec python3 tests/house/commands.py ./cerium
