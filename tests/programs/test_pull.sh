#!/bin/sh
# test_pull.sh - downloads from a server that does everything wrong (check_pull.py).
if command -v python3 >/dev/null; then
    exec python3 tests/programs/check_pull.py ./cerium tests/golden/fixtures/qwen2-q8_0.gguf
fi
echo "skipped: pull: python3 is not installed"
