#!/bin/sh
# test_hostile.sh - 15 s of a hundred hostile clients: the server survives within its memory, and it
# obeys SIGTERM (hostile.py; `make hostile` has a thousand, for minutes, and figures).
cd "$(dirname "$0")/../.." || exit 2
O=${O:-build/release}
clients=$O/hostile_clients
command -v python3 >/dev/null || {
    echo "skipped: hostile clients: there is no python3"
    echo "hostile: 0 passed, 0 failed"
    exit 0
}
case $BUILD in asan | tsan) CLIENT_PATIENCE=${CLIENT_PATIENCE:-6} ;; esac
export CERIUM="${CERIUM:-$PWD/$O/cerium}" CLIENT_PATIENCE="${CLIENT_PATIENCE:-1}"
exec python3 tests/server/hostile.py --clients "$clients" --short --seconds 15 --crowd 100
