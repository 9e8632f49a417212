#!/bin/sh
# test_cases.sh - what the watchdog says of whole files, answers and arguments of tools: what is
# new blocks, what was there does not, tests and documents warn; and that long lines take no longer.
. tests/shell.sh

if ./cerium scan /dev/null 2>&1 | grep -q 'no grammar for'; then
    skip "the cases" "a build without grammars"
else
    cp -r tests/guard/cases "$work/own" # what is below a folder "tests" only warns
    check "the project's own cases" python3 tests/guard/check_cases.py ./cerium "$work/own"
    shared=../shared/data/cases/guard
    if [ -d "$shared" ]; then
        check "the shared cases" python3 tests/guard/check_cases.py ./cerium "$shared"
    else
        skip "the shared cases" "no $shared"
    fi
    check "edits in every form" python3 tests/guard/check_edits.py ./cerium
    check "a long line" sh -c "python3 tests/guard/cases/make_long_line.py >'$work/long.py';
        ( ulimit -t 30; ./cerium scan '$work/long.py' >'$work/long.out'; [ \$? = 1 ] )"
    # Each item of a table whose beginning is far away looks like the target of the next.
    for i in $(seq 40); do echo "   [ROW_KEY] = pair(BLUE, BLACK),"; done >"$work/table.c"
    check "a long table" sh -c "( ulimit -t 30; ./cerium scan '$work/table.c' )"
fi

printf 'def f(cur, n):\n    cur.execute("SELECT 1 FROM t WHERE n = " + n)\n' >"$work/a.py"
check "what stood there before is not told" status 0 ./cerium scan --known "$work/a.py" "$work/a.py"
key="AKIA""QYLPMN5HHHFPZAM2" # in pieces, so that this file passes
echo "k = '$key'" >"$work/k.py"
check "but a secret is" status 1 ./cerium scan --known "$work/k.py" "$work/k.py"
mkdir "$work/tests"
cp "$work/a.py" "$work/tests/a.py"
check "a test does not block" status 0 ./cerium scan --block-only "$work/tests/a.py"
check "a key in one does" status 1 sh -c "cp '$work/k.py' '$work/tests/' &&
    ./cerium scan --block-only '$work/tests/k.py'"
printf 'import hashlib\ndef etag(b): return hashlib.md5(b)\n' >"$work/n.py"
check "a note is told when it is asked for" sh -c "./cerium scan --pedantic '$work/n.py' |
    grep -q ': note: '"
check "and is no finding" status 0 ./cerium scan --pedantic "$work/n.py"
report guard_cases
