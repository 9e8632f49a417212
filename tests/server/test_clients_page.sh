#!/bin/sh
# test_clients_page.sh - docs/clients.md against a server (tests/clients/clients_page.py).
command -v python3 >/dev/null || {
    echo "skipped: the page of clients: there is no python3"
    echo "clients' page: 0 passed, 0 failed"
    exit 0
}
if [ "$O" ]; then CERIUM=$PWD/$O/cerium; else CERIUM=${CERIUM:-$PWD/cerium}; fi
case $BUILD in asan | tsan) CLIENT_PATIENCE=${CLIENT_PATIENCE:-6} ;; esac
export CERIUM CLIENT_PATIENCE="${CLIENT_PATIENCE:-1}"
mkdir -p "${CLIENTS:-build/clients}"
exec python3 "$(dirname "$0")/../clients/clients_page.py" "$@"
