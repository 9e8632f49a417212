#!/bin/sh
# test_events.sh - docs/openapi.yaml names every event that the server sends.
. tests/shell.sh

# Names of events in the source; upstream_answer.c has those that other servers send.
names() {
    find src/protocol src/server -name '*.c' ! -name upstream_answer.c -exec \
        grep -hoE '"(response|completion|codex)\.[a-z_.]*[a-z]"|"keepalive"' {} + |
        tr -d '"' | sort -u
}

# described FILE: it has all of them; prints the missing ones.
described() {
    lacking=$(names | while read -r name; do
        grep -qE "(type: \{const: |type: |- )$name([^a-z_.]|\$)" "$1" || echo "$1 lacks $name"
    done)
    echo "$lacking"
    test -z "$lacking"
}

check "some events are found in the source" test "$(names | wc -l)" -gt 20
check "docs/openapi.yaml names every event" described docs/openapi.yaml
grep -v 'completion.finding' docs/openapi.yaml >"$work/less.yaml"
check_fails "one that lacks an event is told" "lacks completion.finding" described "$work/less.yaml"
report events
