#!/bin/sh
# run_tests.sh - run suites, show what they write, and add up their counts.
#
#   tools/run_tests.sh 'COMMAND ARGUMENT...' ...
#
# A suite ends with a line `name: N passed, M failed` and has a line `skipped: what: why` for each
# thing it leaves out.  One that fails without saying so, or that says nothing, is a failure.  At
# the end come the slowest five of the suites that took 10 seconds or more, and last of all the
# line `cerium: N passed, M failed, K skipped`.
passed=0 failed=0 skipped=0
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
counts='s/^[^:]*: \([0-9][0-9]*\) passed, \([0-9][0-9]*\) failed$/\1 \2/p'

for suite; do
    began=$(date +%s)
    { sh -c "$suite" 2>&1; echo $? >"$work/status"; } | tee "$work/output"
    set -- $(sed -n "$counts" "$work/output" | tail -n 1)
    if [ $# -ne 2 ]; then
        echo "  FAIL $suite: ended with status $(cat "$work/status") and without a count"
        set -- 0 1
    elif [ "$(cat "$work/status")" != 0 ] && [ "$2" = 0 ]; then
        echo "  FAIL $suite: ended with status $(cat "$work/status")"
        set -- "$1" 1
    fi
    passed=$((passed + $1)) failed=$((failed + $2))
    skipped=$((skipped + $(grep -c '^ *skipped: ' "$work/output")))
    echo "$(($(date +%s) - began)) s $suite" >>"$work/times"
done
[ ! -e "$work/times" ] ||
    sort -rn "$work/times" | awk 'NR <= 5 && $1 >= 10 { print "slow: " $1, $2, $3 }'
echo "cerium: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
