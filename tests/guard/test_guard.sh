#!/bin/sh
# test_guard.sh - `cerium scan` as a user meets it: exit status, text, JSON, SARIF, batch, rules of
# one's own, and the example hook in a fresh repository.
. tests/shell.sh

grammars=yes
./cerium scan /dev/null 2>&1 | grep -q 'no grammar for python' && grammars=

check "help" status 0 ./cerium scan --help
check "help has an example" says "cerium scan" out
check "no file is bad usage" status 2 ./cerium scan
check "an unknown language is bad usage" status 2 ./cerium scan --lang cobol x
check "a file that is not there" status 2 ./cerium scan "$work/none.py"
check "is named" says "none.py: No such file" err

echo 'print("hello")' >"$work/good.py"
check "nothing found" status 0 ./cerium scan "$work/good.py"
key="AKIA""QYLPMN5HHHFPZAM2" # in pieces, so that this file passes
echo "key = '$key'" >"$work/key.txt"
check "a secret in any text" status 1 ./cerium scan "$work/key.txt"
check "is told with its line" says "key.txt:1: weak: " out
check "and its number" says "CWE-798" out
check "and what to do" says "instead: " out
mkdir -p "$work/library"
printf 'def f(cur, n):\n    cur.execute(f"SELECT * FROM t WHERE n = {n}")\n' >"$work/library/a.py"
check "a rule that was wrong in libraries" status 1 ./cerium scan "$work/library/a.py"
check "blocks in a file that was named" says "a.py:2: weak: " out
check "and in a folder" status 1 ./cerium scan "$work/library"
check "only warns" says "a.py:2: warning: " out
printf 'from flask import request\ndef f(cur):\n    n = request.args["n"]\n' >"$work/library/a.py"
printf '    cur.execute(f"SELECT * FROM t WHERE n = {n}")\n' >>"$work/library/a.py"
check "with a value from outside" status 1 ./cerium scan "$work/library"
check "it blocks there, too" says "a.py:4: weak: " out
mkdir -p "$work/whole/src" "$work/whole/.git"
printf 'def f(cur, n):\n    cur.execute(f"SELECT * FROM t WHERE n = {n}")\n' >"$work/whole/src/a.py"
check "a folder of loose files" status 1 ./cerium scan "$work/whole"
check "shows what is probably wrong" says "src/a.py:2: warning: " out
check "but not if that is asked for" status 0 ./cerium scan --confidence high "$work/whole"
touch "$work/whole/pyproject.toml"
check "a project of a few files" status 1 ./cerium scan "$work/whole"
check "shows it, too" says "src/a.py:2: warning: " out
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do
    echo "x = $i" >"$work/whole/src/x$i.py"
done
check "a project" status 0 ./cerium scan "$work/whole"
check "does not" sh -c "[ ! -s '$work/out' ]"
check "but counts it" says "1 findings of low confidence are not shown" err
check "nor does its folder" status 0 ./cerium scan "$work/whole/src"
check "only if one asks" status 1 ./cerium scan --confidence low "$work/whole"
check "JSON says why" status 1 ./cerium scan --json --confidence low "$work/whole"
check "with the confidence and the value" says '"confidence":"low","value":"parameter"' out
check "a file that was named is shown" status 1 ./cerium scan "$work/whole/src/a.py"
check "notes ask for all" status 1 ./cerium scan --pedantic "$work/whole"
cp "$work/library/a.py" "$work/whole/src/b.py"
check "a value from outside is shown" status 1 ./cerium scan "$work/whole"
check "with its line" says "src/b.py:4: weak: " out
check "a bad confidence" status 2 ./cerium scan --confidence some "$work/whole"
if command -v python3 >/dev/null; then
    check "precisions are those that were read" python3 bench/precision.py check
else
    skip "precisions are those that were read" "no python3"
fi

check "standard input" sh -c "./cerium scan - <'$work/key.txt'; [ \$? = 1 ]"
check "JSON" status 1 ./cerium scan --json "$work/key.txt"
check "names the rule" says '"rule":"secret-aws-key"' out
check "SARIF" status 1 ./cerium scan --sarif "$work/key.txt" "$work/good.py"
check "has its version" says '"version": "2.1.0"' out

printf '{"id": "a", "language": "text", "code": "k = %s\\n"}\n' "$key" >"$work/in.jsonl"
echo '{"id": 7, "language": "c", "code": ""}' >>"$work/in.jsonl"
check "batch" status 1 ./cerium scan --batch "$work/in.jsonl"
check "answers each line" sh -c "[ \$(wc -l <'$work/out') = 2 ]"
check "with number, line and byte" says '"line":1' out
check "and nothing where nothing is" says '{"id":7,"findings":[]}' out
echo '{"id": 1}' >"$work/in.jsonl"
check "a bad line of a batch" status 2 ./cerium scan --batch "$work/in.jsonl"
check "is named" says 'in.jsonl:1: want {"id"' err

if [ "$grammars" ]; then
    check "idioms of frameworks" sh -c "./cerium scan --batch tests/guard/idioms.jsonl |
        python3 tests/guard/check_idioms.py tests/guard/idioms.jsonl 0.93"
    check "what people write every day, and what only warns" sh -c "
        ./cerium scan --batch tests/guard/everyday.jsonl |
        python3 tests/guard/check_idioms.py tests/guard/everyday.jsonl 1"
    printf 'require "net/ssh"\no = { paranoid: false, verify_host_key: :never }\n' \
        >"$work/twice.rb"
    printf 'o = { verify_host_key: :never }\np = { verify_host_key: :never }\n' >"$work/lines.rb"
    check "what a line says twice" status 1 ./cerium scan "$work/twice.rb"
    check "counts once" sh -c "[ \$(grep -c 'CWE-' '$work/out') = 1 ]"
    check "two lines that say it" status 1 ./cerium scan "$work/lines.rb"
    check "count twice" sh -c "[ \$(grep -c 'CWE-' '$work/out') = 2 ]"
    printf 'login(password="Gh7kPq2mXw9z")\n' >"$work/check.py"
    cp "$work/check.py" "$work/tests.py"
    check "a password" status 1 ./cerium scan "$work/check.py"
    check "only warns in a file of tests" status 0 ./cerium scan --block-only "$work/tests.py"
    { # longer than what is seen at once
        echo '<?php'
        yes '$rows = load();' | head -200
        echo '/**'
        yes ' * the value of `$name`' | head -300
        echo ' */'
        echo 'system("ls " . $_GET["n"]);'
    } >"$work/comment.php"
    check "code in a long comment is none" sh -c "./cerium scan '$work/comment.php' >'$work/out';
        [ \$? = 1 ] && [ \$(grep -c 'CWE-' '$work/out') = 1 ]"
    check "what comes after it is" says "comment.php:504: weak" out
fi

mkdir "$work/rules"
cat >"$work/rules/own.yaml" <<'EOF'
language: text
rules:
  - id: own-word
    cwe: 200
    weakness: secret
    severity: warn
    message: The project's secret name stands in the text
    idiom: say "the project"
    line: '\b(bluebird)\b'
    literals: [bluebird]
    bad: ["about bluebird\n"]
    good: ["about birds\n"]
EOF
echo "we call it bluebird" >"$work/own.txt"
check "rules of one's own" status 1 ./cerium scan --rules "$work/rules" "$work/own.txt"
check "are found" says "own-word" out
check "a warning does not block" \
    status 0 ./cerium scan --rules "$work/rules" --block-only "$work/own.txt"
check "their tests run" status 0 ./cerium scan --rules "$work/rules" --test-rules
check "and count" says "1 rules, 2 tests, 0 failed" out
sed -i 's/about birds/about bluebird/' "$work/rules/own.yaml"
check "a test that does not hold" status 1 ./cerium scan --rules "$work/rules" --test-rules
echo "    colour: red" >>"$work/rules/own.yaml"
check "a bad rule file" status 2 ./cerium scan --rules "$work/rules" "$work/own.txt"
check "is refused with its line" says "own.yaml:13: 'colour' is not known here" err

# ---- folders, trouble, and what is no code ----
check "a file that is not there does not end it" status 2 ./cerium scan "$work/none.py" \
    "$work/key.txt"
check "the other is read" says "key.txt:1: weak" out
mkdir -p "$work/tree/.git" "$work/tree/left" "$work/tree/src"
cp "$work/key.txt" "$work/tree/left/key.txt"
cp "$work/key.txt" "$work/tree/src/key.log"
printf 'left/\n*.log\n!src/seen.log\n' >"$work/tree/.gitignore"
check "what is ignored is left out" status 0 ./cerium scan "$work/tree"
check "but not where it is named" status 1 ./cerium scan "$work/tree/src/key.log"
cp "$work/key.txt" "$work/tree/src/seen.log"
check "what is not ignored is read" status 1 ./cerium scan "$work/tree"
check "by its path" says "tree/src/seen.log:1: weak" out
check "and nothing else" sh -c "! grep -q -e left/ -e key.log '$work/out'"
printf 'a\0%s' "$key" >"$work/tree/src/data"
rm "$work/tree/src/seen.log"
check "a binary file is passed over" status 0 ./cerium scan "$work/tree"
check "and counted" says "1 binary files were passed over" err
printf 'import sys\nimport os\nx = eval(sys.argv[1])\n' >"$work/quotes.yaml"
check "data that quotes code is none" status 0 ./cerium scan "$work/quotes.yaml"
if [ "$grammars" ]; then
    cp "$work/quotes.yaml" "$work/quotes"
    check "a file of no kind may be" status 1 ./cerium scan "$work/quotes"
    check "unless it is said" status 0 ./cerium scan --lang text "$work/quotes"
    printf -- '--- a.py\t2026\n+++ a.py\t2026\n@@ -7,1 +7,2 @@\n def f(n):\n+    return eval(n)\n' \
        >"$work/plain.diff"
    check "a diff of diff -u" status 1 ./cerium scan --answer "$work/plain.diff"
    check "has the line of the file" says "a.py:8: weak" out
    sed "s/^+.*/$(printf '\033')[32m&$(printf '\033')[m/" "$work/plain.diff" >"$work/colors.diff"
    check "one with colors" status 1 ./cerium scan --answer "$work/colors.diff"
    check "too" says "a.py:8: weak" out
fi

if [ "$grammars" ] && command -v git >/dev/null; then
    (
        cd "$work" && git init -q repo && cd repo && git config user.email a@b.c &&
            git config user.name a && printf 'def f(n):\n    return n\n' >a.py && git add a.py &&
            git commit -q -m one
    )
    cp examples/pre-commit "$work/repo/.git/hooks/pre-commit"
    PATH=$PWD:$PATH
    commit() { (cd "$work/repo" && git add a.py && git commit -q -m "$1"); }
    printf 'def f(n):\n    return eval(n)\n' >"$work/repo/a.py"
    check_fails "the hook refuses a weak commit" "CWE-95" commit weak
    printf 'def f(n):\n    return int(n)\n' >"$work/repo/a.py"
    check "and lets a good one pass" commit good
    mkdir "$work/words"
    git -C "$work/words" init -q
    printf 'import os\ndef f(n):\n    x = 1\n    os.system("ls")\n' >"$work/words/a.py"
    git -C "$work/words" add a.py
    printf 'import os\ndef f(n):\n    x = 1\n    os.system("ls " + n)\n' >"$work/words/a.py"
    for by in plain porcelain color; do
        git -C "$work/words" diff --word-diff=$by >"$work/words.diff"
        check "a diff by words ($by)" status 2 ./cerium scan "$work/words.diff"
        check "is named ($by)" says 'words.diff:5: not judged: changes by words' err
    done
    git -C "$work/words" diff >"$work/lines.diff"
    check "the same by lines" status 1 ./cerium scan "$work/lines.diff"
    check "SARIF is valid" python3 tests/guard/check_sarif.py ./cerium examples "$work/key.txt"
else
    skip "the pre-commit hook" "no git, or a build without grammars"
fi
report guard_scan
