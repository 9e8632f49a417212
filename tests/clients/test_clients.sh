#!/bin/sh
# test_clients.sh - real clients against `cerium serve`: installs them, runs each, adds up.
#
#   tests/clients/test_clients.sh [NAME...]     codex, sdk_python, sdk_tools, sdk_others,
#       claude_code, sdk_node, sdk_node_others, agents, agent_tasks, curl, raw, page
#
# Clients that cannot be installed are skipped by name.
here=$(dirname "$0")
CLIENTS=${CLIENTS:-build/clients}
case $CLIENTS in /*) ;; *) CLIENTS=$PWD/$CLIENTS ;; esac
if [ "$O" ]; then CERIUM=$PWD/$O/cerium; else CERIUM=${CERIUM:-$PWD/cerium}; fi
case $BUILD in asan | tsan) CLIENT_PATIENCE=${CLIENT_PATIENCE:-6} ;; esac
export CLIENTS CERIUM CLIENT_PATIENCE="${CLIENT_PATIENCE:-1}"
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=1}"
python=$CLIENTS/python/bin/python3 node=$CLIENTS/node/node_modules/.bin/node
passed=0 failed=0

sh "$here/install.sh" "$CLIENTS"
command -v python3 >/dev/null || {
    echo "skipped: real clients: there is no python3"
    echo "clients: 0 passed, 0 failed"
    exit 0
}

# suite NAME COMMAND...: adds up its last line `NAME: N passed, M failed`.
suite() {
    name=$1
    shift
    case " $wanted " in "  " | *" $name "*) ;; *) return ;; esac
    echo "$name:"
    "$@" | tee "$CLIENTS/output"
    counts=$(sed -n 's/^[^:]*: \([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p' "$CLIENTS/output" |
        tail -n 1)
    [ "$counts" ] || {
        echo "  FAIL $name: ended without a count"
        counts="0 1"
    }
    passed=$((passed + ${counts% *})) failed=$((failed + ${counts#* }))
}

# With sanitizers only the misbehaving client runs; the others would only be slow.
wanted="$*"
case $BUILD in asan | tsan) wanted=${wanted:-raw} ;; esac
suite curl python3 "$here/curl.py"
suite raw python3 "$here/raw.py"
suite codex python3 "$here/codex.py"
if [ -e "$CLIENTS/missing/openai-python" ]; then
    echo "skipped: openai for Python: $(cat "$CLIENTS/missing/openai-python")"
else
    suite sdk_python "$python" "$here/sdk_python.py"
    suite sdk_tools "$python" "$here/sdk_tools.py"
fi
if [ -e "$CLIENTS/missing/sdk_others" ]; then
    echo "skipped: anthropic and ollama for Python: $(cat "$CLIENTS/missing/sdk_others")"
else
    suite sdk_others "$CLIENTS/python-messages/bin/python3" "$here/sdk_others.py"
fi
suite claude_code python3 "$here/claude_code.py"
suite sdk_node python3 "$here/node.py" sdk_node.mjs openai-node
suite sdk_node_others python3 "$here/node.py" sdk_node_others.mjs others-node
suite page python3 "$here/node.py" page.mjs playwright
suite agents python3 "$here/agents.py"
suite agent_tasks python3 "$here/agent_tasks.py"
suite clients_page python3 "$here/clients_page.py"
echo "clients: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
