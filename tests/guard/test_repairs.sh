#!/bin/sh
# test_repairs.sh - what stands in the place of weak lines parses, is not weak, and what carries it
# stays whole (check_repairs.py); and so does what an answer that ends too early left
# (check_endings.py).
. tests/shell.sh

if ./cerium scan /dev/null 2>&1 | grep -q 'no grammar for'; then
    skip "repairs" "a build without grammars"
elif ! python3 -c 'import yaml' 2>/dev/null; then
    skip "repairs" "no yaml for python3"
else
    check "repairs of the rules' samples and of the project's own" \
        python3 tests/guard/check_repairs.py "$O/bench_repairs" models/cerium-line.gguf \
        tests/guard/own.jsonl tests/guard/idioms.jsonl tests/guard/forced.jsonl \
        tests/guard/compiled.jsonl
    check "answers with a repair that end too early" \
        python3 tests/guard/check_endings.py "$O/bench_repairs" models/cerium-line.gguf \
        tests/guard/own.jsonl tests/guard/forced.jsonl
fi
report guard_repairs
