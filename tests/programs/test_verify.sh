#!/bin/sh
# test_verify.sh - an answer that is recorded is repeated to the bit; a record that was changed, of
# another model or none at all is told, and where it differs.
. tests/shell.sh

export CERIUM_MODEL=tests/golden/fixtures/qwen2-q8_0.gguf
one="$work/one.json"

record() { ./cerium run --raw --quiet --guard off -n 40 --ignore-end "$@" >"$work/text"; }
change() { # EXPRESSION of Python on the record r
    python3 -c "import json,sys
r=json.load(open('$one'))
$1
json.dump(r,open('$work/changed.json','w'))"
}

check "a greedy answer" status 0 record -p 'def f(x):' --record "$one"
check "has a digest" says " of 40 tokens" err
check "is repeated" status 0 ./cerium verify "$one"
check "in each way" says "40 tokens, the same bits each time" out
check "from standard input" status 0 sh -c "./cerium verify - <'$one'"
digest=$(sed 's/.*"digest":"\([0-9a-f]*\)".*/\1/' "$one")
check "without a record" status 0 record -p 'def f(x):' --digest --threads 1 --no-speculation
check "the same digest" says "digest $digest " err
check "of numbers that are wider" status 0 record -p 'def f(x):' --digest --kv f32
check "another digest" test "$(grep -c "$digest" "$work/err")" = 0

check "a sampled answer" status 0 record -p 'class A:' --temp 0.9 --seed 7 --record "$one"
check "is repeated, too" status 0 ./cerium verify "$one"

change "r['tokens'][17] += 1"
check "another token" status 1 ./cerium verify "$work/changed.json"
check "is told by its number" says "another token, 18" out
change "r['marks'][20] = '0' * 16"
check "other logits" status 1 ./cerium verify "$work/changed.json"
check "are told by theirs" says "other logits for token 21" out
change "r['sampling']['seed'] = '00000000000000ff'"
check "another seed" status 1 ./cerium verify "$work/changed.json"
change "r['digest'] = '0' * 32"
check "another digest" status 1 ./cerium verify "$work/changed.json"
change "r['prompt'][0] += 1"
check "another prompt" status 1 ./cerium verify "$work/changed.json"
check "differs from the first token on" grep -q "token,* 1\$" "$work/out"
check "another model" refused 1 "SHA-256" \
    ./cerium verify -m tests/golden/fixtures/qwen2-q4_0.gguf "$one"
for broken in "del r['marks'][3]" "r['tokens'] = []" "r['tokens'][0] = 2 ** 31" "r['version'] = 2" \
    "del r['sampling']['seed']" "r['prompt'] = 'def'" "r['heal_prefix'] = 'zz'" \
    "r['digest'] = '12'" "del r['model']['sha256']" "r['object'] = 1"; do
    change "$broken"
    check "no record: $broken" refused 1 "no record" ./cerium verify "$work/changed.json"
done
printf '{' >"$work/cut.json"
check "cut off" refused 1 "no record" ./cerium verify "$work/cut.json"
check "no file" refused 2 "one FILE" ./cerium verify
check "not with others" refused 2 "best-of" ./cerium run -p x --digest --best-of 2 --temp 1
report verify
