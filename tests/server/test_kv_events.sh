#!/bin/sh
# test_kv_events.sh - KV events, as ZeroMQ's sockets and vLLM's types read them.
. tests/shell.sh
command -v python3 >/dev/null || {
    skip "KV events" "there is no python3"
    report kv_events
    exit
}
python_with build/kv_events "zmq, msgspec" pyzmq msgspec || {
    skip "KV events" "$why"
    report kv_events
    exit
}
PATH=$PWD/build/kv_events/bin:$PATH
. tests/server/check.sh
check kv_events "KV events" "$@"
