#!/bin/sh
# test_terminal.sh - conversations, colors and addresses: tests/programs/check_terminal.py.
exec python3 tests/programs/check_terminal.py ./cerium tests/golden/fixtures/qwen2-q8_0.gguf \
    "${O:-build/release}/tool_make_model"
