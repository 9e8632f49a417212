#!/bin/sh
# test_compose.sh - examples/deploy/compose.yaml is valid by the schema of the specification, which
# the Go module compose-go has, and obeys the rules of compose.py.
. tests/shell.sh
file=examples/deploy/compose.yaml
if ! command -v python3 >/dev/null || ! python3 -c 'import yaml' 2>/dev/null; then
    skip "the compose file" "there is no python3 with yaml"
    report compose
    exit
fi
CERIUM=$PWD/${O:-build/release}/cerium
rules=tests/packages/compose.py
check "every server is bounded, read-only, and unprivileged" python3 $rules $file
for line in read_only cap_drop stop_grace_period healthcheck mem_limit; do
    sed "0,/^  $line:/s/^  $line:/  x-$line:/" $file >"$work/lax.yaml"
    check_fails "without $line it is found out" "$line" \
        python3 $rules "$work/lax.yaml"
done
cache=$(go env GOMODCACHE 2>/dev/null)/github.com/compose-spec
schema=$(ls -d "$cache"/compose-go/v2@*/schema 2>/dev/null | tail -n 1)
if [ -z "$schema" ]; then
    skip "the schema of compose" "compose-go is not there: tools/fetch_cluster_tools.sh compose"
elif ! python_with build/schemas/python jsonschema,yaml kubernetes-validate==1.37.0; then
    skip "the schema of compose" "$why"
else
    valid='import json, sys, jsonschema, yaml
jsonschema.validate(yaml.safe_load(open(sys.argv[2])), json.load(open(sys.argv[1])))'
    check "it is valid by the specification" \
        $python -c "$valid" "$schema/compose-spec.json" $file
    sed 's/cap_drop/cap_dropped/' $file >"$work/wrong.yaml"
    check_fails "a key that is not known is found" cap_dropped \
        $python -c "$valid" "$schema/compose-spec.json" "$work/wrong.yaml"
fi
report compose
