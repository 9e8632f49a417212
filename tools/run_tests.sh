#!/bin/sh
# run_tests.sh - run suites, show their output, and add up their counts.
#
#   tools/run_tests.sh 'COMMAND ARGUMENT...' ...
#
# As many run in parallel as there are processors, at most four, or TEST_JOBS of them.  The
# output of one is shown whole, when it ends.
#
# A suite ends with a line `name: N passed, M failed` and has a line `skipped: what: why` for each
# thing it leaves out.  One that fails without a count of failures, or without any count, is a
# failure.  At the end come the slowest five of the suites that took 10 seconds or more, and last of
# all the line `cerium: N passed, M failed, K skipped`.
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
counts='s/^[^:]*: \([0-9][0-9]*\) passed, \([0-9][0-9]*\) failed$/\1 \2/p'
jobs=${TEST_JOBS:-$(nproc)}
[ "$TEST_JOBS" ] || [ "$jobs" -le 4 ] || jobs=4

n=0
for suite; do
    n=$((n + 1))
    printf '%s\n' "$suite" >"$work/$n.suite"
done

# $0 is the folder, $1 the number of the suite.
run='began=$(date +%s)
sh -c "$(cat "$0/$1.suite")" >"$0/$1.output" 2>&1
echo "$? $(($(date +%s) - began))" >"$0/$1.end"
echo "$1"'

# add_up N: the suites' outputs, each when its number is read; there must be N suites.
add_up() {
    passed=0 failed=0 skipped=0 ended=0
    while read -r number; do
        suite=$(cat "$work/$number.suite") output=$work/$number.output
        read -r status seconds <"$work/$number.end"
        cat "$output"
        set -- "$1" $(sed -n "$counts" "$output" | tail -n 1)
        if [ $# -ne 3 ]; then
            echo "  FAIL $suite: ended with status $status and without a count"
            set -- "$1" 0 1
        elif [ "$status" != 0 ] && [ "$3" = 0 ]; then
            echo "  FAIL $suite: ended with status $status"
            set -- "$1" "$2" 1
        fi
        ended=$((ended + 1)) passed=$((passed + $2)) failed=$((failed + $3))
        skipped=$((skipped + $(grep -c '^ *skipped: ' "$output")))
        echo "$seconds s $suite" >>"$work/times"
    done
    if [ "$ended" -ne "$1" ]; then
        echo "  FAIL $(($1 - ended)) suites did not run"
        failed=$((failed + 1))
    fi
    [ ! -e "$work/times" ] ||
        sort -rn "$work/times" | awk 'NR <= 5 && $1 >= 10 { print "slow: " substr($0, 1, 80) }'
    echo "cerium: $passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
}

seq "$n" | xargs -r -P "$jobs" -n 1 sh -c "$run" "$work" | add_up "$n"
