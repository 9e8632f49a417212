#!/bin/sh
# test_openai_types.sh - answers of every kind go through the openai package for Python: its client,
# its stream helpers and its types.  PYTHON names an interpreter that has the package.
python=${PYTHON:-python3}
if ! "$python" -c 'import openai' 2>/dev/null; then
    echo "skipped: answers read by the openai package: $python has no module openai"
    echo "openai types: 0 passed, 0 failed"
    exit 0
fi
"$O/protocol_answers" | "$python" tests/protocol/openai_types.py
