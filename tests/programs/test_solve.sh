#!/bin/sh
# test_solve.sh - `cerium solve`: what is found, what is refused, what is written and what not.
. tests/shell.sh

C=$PWD/cerium tree=$PWD
export CERIUM_RULES=$PWD/rules CERIUM_CACHE=off
cd "$work" || exit 2
run() { eval "$1"; } # the words of a check as the shell reads them
solve() { "$C" solve --quiet "$@" >out 2>err; }
mutate() { solve --makers mutate "$@"; }
refuses() { # STATUS TEXT ARGUMENT...: one line with the text, nothing on output, nothing changed
    refuses_status=$1 text=$2
    shift 2
    cp add.py before.py
    "$C" solve --quiet --makers mutate "$@" >out 2>err
    got=$?
    [ "$got" = "$refuses_status" ] && [ ! -s out ] && [ "$(wc -l <err)" = 1 ] &&
        grep -qF -e "$text" err && cmp add.py before.py || { echo "$got"; cat out err; return 1; }
}

cat >add.py <<'END'
def add(a, b):
    """The sum.

    >>> add(2, 3)
    5
    """
    return a - b


def twice(a):
    return add(a, a)
END
cp add.py unsolved.py
printf 'assert add(2, 3) == 5\nassert add(0, 7) == 7\n' >tests.py
printf 'from add import twice\n\n\ndef test_twice():\n    assert twice(4) == 8\n' >import.py
printf 'assert add(1, 1) == 2\n' >hidden.py
printf 'assert False\n' >never.py

if ! mutate add.py:7 --test-file tests.py; then
    skip "cerium solve" "no sandbox here: $(cat err)"
    report solve
    exit
fi
solved() { grep -qx -e '+    return a + b' out && grep -qx -e '-    return a - b' out; }
unchanged() { cmp -s add.py unsolved.py; }
patches() { cp add.py p.py && patch -s p.py out && grep -q 'a + b' p.py; }

# places
check "a line" run 'mutate add.py:7 --test-file tests.py && solved && unchanged && patches'
check "lines" run 'mutate add.py:6-7 --test-file tests.py && solved'
check "a function" run 'mutate add.py --function add --test-file tests.py && solved'
check "no place" run 'mutate add.py --test-file tests.py && solved'
sed 's/a - b/a /' add.py >hole.py
check "a column" run 'mutate hole.py:7:14 --test-file tests.py -N 1000 || true; grep -q . err'
printf 'def f(a):\r\n    return a - 1\r\n' >windows.py
check "line breaks of Windows stay" run \
    'mutate windows.py:2 --example "f(1) == 2" && grep -q "a + 1.$" out && cp windows.py w.py &&
     patch --binary -s w.py out && [ "$(grep -c "$(printf "\r")" w.py)" = 2 ]'

# the failing test leads
printf 'def add(a, b):\n    return a - b + 1\n' >two.py
printf 'assert add(3, 0) == 3\nassert add(2, 3) == 5\n' >two_tests.py
check "one edit is not enough" run '! mutate two.py:2 --test-file two_tests.py'
check "what passes more tests is edited again" run \
    'solve --makers mutate,repair two.py:2 --test-file two_tests.py && grep -q "^+    return" out'
printf 'int add(int a, int b)\n{\n    return a - b + 1;\n}\n' >two.c
printf '#include <assert.h>\nint main(void)\n{\n    assert(add(3, 0) == 3);\n%s' \
    '    assert(add(2, 3) == 5); return 0; }' >two_tests.c
[ -x /usr/bin/cc ] && check "in C, too" run \
    'solve --makers mutate,repair two.c:3 --test-file two_tests.c && grep -q "^+    return" out'
printf 'def one(a):\n    return a + 1\n\n\ndef last(a):\n    return a[len(a)]\n' >index.py
printf 'assert one(1) == 2\nassert last([1, 3]) == 3\n' >index_tests.py
check "the line that raises comes first" run \
    'solve --makers mutate,repair --first --keep led index.py --test-file index_tests.py &&
     head -n 1 led | grep -q "\"at\":\[[5-9][0-9]"'
check "repair alone makes nothing" refuses 2 "mutate or model" add.py:7 --doctest --makers repair

# tests
check "tests that import the file" run 'mutate add.py:7 --test-file import.py && solved'
check "examples" run \
    'mutate add.py:7 --example "add(2, 3) == 5" --example "add(1, 0) == 1" && solved'
check "docstrings" run 'mutate add.py:7 --doctest && solved'
check "hidden tests" run 'mutate add.py:7 --test-file tests.py --hidden hidden.py && solved'
check "hidden tests that nothing passes" run \
    '! mutate add.py:7 --test-file tests.py --hidden never.py && grep -q "not the hidden" err'
{ echo 'from add import add'; cat tests.py; } >tests_with.py
[ -x /usr/bin/python3 ] && check "a command" run \
    'mutate add.py:7 --test "/usr/bin/python3 tests_with.py" && solved'
cat >leave.py <<'END'
import os


def add(a, b):
    if a == 2:
        os.close(0)
    return a - b


def stop():
    os._exit(1)
END
[ -x /usr/bin/python3 ] && check "a command that a variant would end" run \
    '! mutate leave.py:6 --test "/usr/bin/python3 -c \
        \"import leave; assert leave.add(2, 3) == 5\"" \
     && grep -q "but are weak" err && test ! -s out'
printf 'from add import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n' >test_add.py
if ls /usr/lib/python3*/*-packages/pytest >/dev/null 2>&1; then
    check "pytest" run 'mutate add.py:7 --pytest test_add.py && solved'
    check "pytest that finds nothing" refuses 2 "cannot run" add.py:7 --pytest nowhere.py
else
    skip "pytest" "python3-pytest is not there"
fi
printf 'int add(int a, int b) { return a - b; }\n' >add.c
printf 'int main(void) { return add(2, 3) != 5; }\n' >tests.c
check "C" run 'mutate add.c:1 --test-file tests.c && grep -q "a + b" out'
check "C by examples" run 'mutate add.c:1 --example "add(2, 3) == 5" && grep -q "a + b" out'
printf '_Static_assert(1, "x");\n_Complex double z;\n' >hard.c
cat add.c >>hard.c
check "C that tcc does not know" run 'mutate hard.c:3 --test-file tests.c && grep -q "a + b" out'
if [ -x /usr/bin/node ]; then
    printf 'function add(a, b) { return a - b; }\n' >add.js
    check "JavaScript" run 'mutate add.js:1 --example "add(2, 3) === 5" && grep -q "a + b" out'
    echo 'import { join } from "node:path";' >add.mjs
    echo 'export function add(a, b) { return a - b; }' >>add.mjs
    echo 'export const at = join(import.meta.url, "x");' >>add.mjs
    printf 'import assert from "node:assert";\nassert.equal(await add(2, 3), 5);\n' >tests.mjs
    check "a module" run 'mutate add.mjs:2 --test-file tests.mjs && grep -q "a + b" out'
else
    skip "JavaScript" "there is no /usr/bin/node"
fi

# refused
check "no tests" refuses 2 "no tests: give" add.py:7
check "two kinds" refuses 2 "one kind at a time" add.py:7 --doctest --test true
check "a missing line" refuses 2 "there is no line 99" add.py:99 --doctest
check "a missing column" refuses 2 "has 16 columns, not 99" add.py:7:99 --doctest
check "a missing function" refuses 2 "no function sub" add.py --function sub --doctest
check "tests that pass already" refuses 2 "pass already" add.py:7 --example 'add(0, 0) == 0'
check "tests without the file" refuses 2 "pass already" add.py:7 --example '1 == 1'
check "tests that cannot run" refuses 2 "the tests cannot run" add.py:7 --example 'add(2'
printf 'import no_such_module\nassert add(2, 3) == 5\n' >imports.py
check "tests that lack a module" refuses 2 "--root names" add.py:7 --test-file imports.py
echo "x = 1" >plain.py
check "no examples in docstrings" refuses 2 "no example" plain.py:1 --doctest
echo x >notes.txt
check "a text of no language" refuses 2 "test it by --test" notes.txt:1 --example 'x'
printf 'a\0b' >nul.py
check "NUL bytes" refuses 1 "NUL bytes" nul.py:1 --doctest
head -c 5000000 /dev/zero | tr '\0' 'x' >huge.py
check "a huge file" refuses 1 "too long" huge.py:1 --doctest
: >empty.py
check "an empty file" refuses 2 "cannot run" empty.py --doctest
check "a file that is not there" refuses 1 "nowhere.py" nowhere.py:1 --doctest
check "a folder without the file" refuses 2 "is not in it" add.py:7 --root /usr --test true
none() {
    ! mutate add.py:7 --example 'add(2, 3) == 77' && [ ! -s out ] && unchanged &&
        grep -q '^solve: none of' err
}
check "none passes" none
check "the nearest is told" run \
    '! mutate add.py:7 --example "add(5, 0) == 5" --example "add(2, 3) == 77" &&
     grep -q "^nearest: " err'
check "the nearest is shown" run \
    '! mutate add.py:7 --example "add(5, 0) == 5" --example "add(2, 3) == 77" --show-nearest &&
     grep -q "^@@" out && unchanged'
printf 'import random\nrandom.seed()\n%s\n' "$(cat add.py)" >flaky.py
printf 'assert hash("x") %% 2 == hash("x") %% 2\nassert add(2, 3) == 5\n' >steady.py
check "what hashes give decides nothing" run \
    'mutate flaky.py:9 --test-file steady.py && grep -q "a + b" out'

# --apply
chmod 400 add.py
check "a read-only file" run \
    '! mutate add.py:7 --doctest --apply && grep -q "read-only" err && unchanged'
chmod 644 add.py
ln -s add.py link.py
check "it is written through a link" run \
    'mutate link.py:7 --doctest --apply && [ -L link.py ] && grep -q "a + b" add.py'
cp unsolved.py add.py
check "a file that changes is kept, one whose writer is killed is whole" \
    python3 "$tree/tests/programs/check_solve_apply.py" "$C"
check "nothing is left beside it" test -z "$(find . -name '*.cerium-*')"

# events
check "events" run 'mutate add.py:7 --doctest --json &&
    head -n 1 out | grep -q "\"event\":\"begin\"" && grep -q "\"event\":\"pass\"" out &&
    tail -n 1 out | grep -q "\"status\":\"found\""'
check "events of a failure" run '! mutate add.py:7 --example "add(2, 3) == 77" --json &&
    tail -n 1 out | grep -q "\"status\":\"none\""'
check "all variants are kept" run 'mutate add.py:7 --doctest --all --keep kept &&
    grep -q "\"verdict\":\"pass\"" kept && [ "$(wc -l <kept)" -gt 20 ]'

# the same result, however it is run
printf 'class Point:\n    def __init__(self, x, y):\n        %s\n        %s\n' \
    'self.x = x' 'self.y = 7' >point.py
same() { # ARGUMENT...: what it finds, without what depends on who else wants the processor
    "$C" solve --quiet --json point.py:4 --example 'Point(1, 2).y == 2' --survivors 2 -N 60 \
        --makers model "$@" 2>err | tail -n 1 |
        grep -o '"status":"[a-z]*"\|"index":[0-9]*\|"diff":"[^"]*"'
}
same --slots 1 --threads 1 >one
check "a model's variant is found" grep -q '"index"' one
two_same() { same "$@" >two && cmp one two; }
check "two slots give the same" two_same --slots 2 --threads 1
check "two threads give the same" two_same --slots 1 --threads 2
check "without drafts it is the same" two_same --slots 2 --no-speculation
check "a model writes bodies of functions, of several lines" run \
    'solve point.py --function __init__ --example "Point(1, 2).y == 2" --makers model -N 20 \
     --keep bodies || true; grep -q "self.x = x.n" bodies && ! grep "class Point" bodies'
# the model is somebody else's
said='{"choices":[{"text":"    return a + b","index":0,"finish_reason":"stop"}]}'
asks() { "$C" solve --json --ask --makers model --first add.py:7 --test-file tests.py >out 2>err; }
check "variants that are asked for" run \
    'echo "$said" | asks && grep -q "\"event\":\"ask\",\"prompt\":\"def add" out &&
     grep -q "\"text\":\"def add.*return a + b.*\"status\":\"found\"" out && unchanged'
check "nobody answers" run \
    '! asks </dev/null && tail -n 1 out | grep -q "\"model\":\"nobody answers"'
no='{"error":{"message":"no more"}}'
check "one that is refused ends them, and is told" run \
    '! printf "%s\n%s\n" "$no" "$no" | asks; tail -n 1 out | grep -q "\"model\":\"no more\""'
check "--ask goes with --json" run \
    '! mutate --ask add.py:7 --test-file tests.py && grep -q -e --json err'

report solve
