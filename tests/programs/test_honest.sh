#!/bin/sh
# test_honest.sh - `cerium bench --honest` (check_honest.py).
command -v python3 >/dev/null || {
    echo "skipped: bench --honest: there is no python3"
    echo "honest: 0 passed, 0 failed"
    exit 0
}
if [ "$O" ]; then CERIUM=$PWD/$O/cerium; else CERIUM=${CERIUM:-$PWD/cerium}; fi
case $BUILD in asan | tsan) CLIENT_PATIENCE=${CLIENT_PATIENCE:-6} ;; esac
export CERIUM CERIUM_RULES="$PWD/rules" CLIENT_PATIENCE="${CLIENT_PATIENCE:-1}"
exec python3 tests/programs/check_honest.py
