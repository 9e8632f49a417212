#!/bin/sh
# test_upstream.sh - requests that another server answers (check_upstream.py).
command -v python3 >/dev/null || {
    echo "skipped: upstreams: there is no python3"
    echo "upstream: 0 passed, 0 failed"
    exit 0
}
if [ "$O" ]; then CERIUM=$PWD/$O/cerium; else CERIUM=${CERIUM:-$PWD/cerium}; fi
CLIENTS=${CLIENTS:-$PWD/build/clients}
mkdir -p "$CLIENTS"
case $BUILD in asan | tsan) CLIENT_PATIENCE=${CLIENT_PATIENCE:-6} ;; esac
export CERIUM CLIENTS CLIENT_PATIENCE="${CLIENT_PATIENCE:-1}"
exec python3 "$(dirname "$0")/check_upstream.py" "$@"
