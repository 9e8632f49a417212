#!/bin/sh
# test_runner.sh - the runner of tests sees every way in which a suite can fail.
. tests/shell.sh

# runs NAME LAST_LINE STATUS SUITE...
runs() {
    name=$1 want="$2 status $3"
    shift 3
    tools/run_tests.sh "$@" >"$work/out" 2>&1
    status=$?
    check "$name" test "$(tail -n 1 "$work/out") status $status" = "$want"
}

good='echo good: 3 passed, 0 failed'
runs "no suites" "cerium: 0 passed, 0 failed, 0 skipped" 0
runs "two good suites" "cerium: 6 passed, 0 failed, 0 skipped" 0 "$good" "$good"
runs "a failed test" "cerium: 4 passed, 2 failed, 0 skipped" 1 \
    'echo bad: 1 passed, 2 failed; exit 1' "$good"
runs "a failed test with status 0" "cerium: 1 passed, 2 failed, 0 skipped" 1 \
    'echo bad: 1 passed, 2 failed'
runs "a status without a failed test" "cerium: 3 passed, 1 failed, 0 skipped" 1 "$good; exit 7"
runs "a crash" "cerium: 3 passed, 1 failed, 0 skipped" 1 'kill -SEGV $$' "$good"
runs "no count" "cerium: 0 passed, 1 failed, 0 skipped" 1 true
runs "what is not there" "cerium: 0 passed, 1 failed, 0 skipped" 1 /nowhere/suite
runs "skipped tests" "cerium: 3 passed, 0 failed, 2 skipped" 0 \
    "echo 'skipped: a: no b'; echo '  skipped: c: no d'; $good"

# Each waits until the other has begun and written: the output of each stays in one piece.
beside() {
    for one in a b; do
        other=$(echo $one | tr ab ba)
        set -- "$@" "echo $one begins; : >$work/$one; i=0
            until [ -e $work/$other ] || [ \$i = 3000 ]; do sleep 0.02; i=\$((i + 1)); done
            [ -e $work/$other ] && echo $one: 1 passed, 0 failed"
    done
    rm -f "$work/a" "$work/b"
    TEST_JOBS=2 tools/run_tests.sh "$@" >"$work/out" 2>&1
    grep -A 1 '^a begins$' "$work/out" | tail -n 1 | grep -qx 'a: 1 passed, 0 failed' &&
        grep -A 1 '^b begins$' "$work/out" | tail -n 1 | grep -qx 'b: 1 passed, 0 failed' &&
        tail -n 1 "$work/out" | grep -qx 'cerium: 2 passed, 0 failed, 0 skipped'
}
check "suites run side by side, and the output of each stays whole" beside
# A shell that is killed ends xargs, too.
export TEST_JOBS=1
runs "a suite that kills its runner" "cerium: 0 passed, 1 failed, 0 skipped" 1 \
    'kill -KILL $PPID' "$good"
check "the number of suites that did not run is shown" \
    grep -q "FAIL 2 suites did not run" "$work/out"
check_fails "the harness for shell fails when a check does" "0 passed, 4 failed" sh -c '
    . tests/shell.sh
    check wrong false
    check_fails "did not fail" x true
    check_fails "other text" wanted sh -c "echo other; exit 1"
    check_fails "no command" wanted /nowhere/command
    report inner'
report runner
