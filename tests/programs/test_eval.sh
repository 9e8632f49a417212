#!/bin/sh
# test_eval.sh - cerium eval: sets in their three forms, figures that are known, the same twice.
. tests/shell.sh

model=tests/golden/fixtures/qwen2-q8_0.gguf
export CERIUM_MODEL=$model

differ() { ! cmp -s "$@"; }
evaluate() { ./cerium eval --lines 3 --bytes 2K --window 128 "$@"; }

mkdir "$work/set"
i=0
while [ $i -lt 12 ]; do
    printf 'int number_%d(int x)\n{\n    int y = x + %d;\n    return y * y;\n}\n\n' $i $i
    i=$((i + 1))
done >"$work/set/a.c"
printf 'import os\n\n\ndef f(x):\n    value = os.path.join(x, "y")\n    return value\n' \
    >"$work/set/b.py"
echo "no source" >"$work/set/notes.txt"
check "a folder" status 0 evaluate --set "$work/set"
check "by language" says python out
check "and all" says "all " out
cp "$work/out" "$work/first"
check "again" status 0 evaluate --set "$work/set"
check "the same" cmp "$work/first" "$work/out"
check "other threads and batches" status 0 evaluate --set "$work/set" --threads 2 --batch 5
check "the same, too" cmp "$work/first" "$work/out"

check "ends of lines" status 0 evaluate --set "$work/set" --within --answers "$work/ends.jsonl"
are_ends() {
    python3 - "$work/ends.jsonl" "$work/set/a.c" "$work/set/b.py" <<'END'
import json, sys
lines = {line for path in sys.argv[2:] for line in open(path).read().split("\n")}
asked = [json.loads(row)["expected"] for row in open(sys.argv[1])]
ends = [any(line.endswith(end) and line.strip() != end for line in lines) for end in asked]
sys.exit(not asked or not all(asked) or not all(ends))
END
}
check "from within a line to its end" are_ends
cp "$work/ends.jsonl" "$work/healed.jsonl"
check "without healing" status 0 evaluate --set "$work/set" --within --no-healing \
    --answers "$work/ends.jsonl"
check "they are the same ends" are_ends
check "and not the same answers" differ "$work/healed.jsonl" "$work/ends.jsonl"

check "against itself" status 0 evaluate --set "$work/set" --against $model --tokens 30 --json
check "all tokens agree" says '"agreement": 1.0' out
check "no difference" says '"difference"' out
differences() { sed -n '/"difference"/,/}$/p' "$work/out" | grep -E '"(value|low|high)"'; }
none_differs() { differences | grep -q . && ! differences | grep -vq ': 0.0'; }
check "in any figure" none_differs
check "against another" status 0 evaluate --set "$work/set" --json --tokens 30 \
    --against tests/golden/fixtures/qwen2-q4_0.gguf
some_differ() { differences | grep -vq ': 0.0'; }
check "differs" some_differ

cat >"$work/set.jsonl" <<'END'
{"path": "x.py", "text": "a = 1\nb = 2\nc = 3\nd = 4\nlonger = 5\n"}
{"task_id": "T/1", "prompt": "def f(x):\n", "canonical_solution": "    return x", "suffix": "\n"}
END
check "JSON Lines" status 0 evaluate --set "$work/set.jsonl" --answers "$work/answers.jsonl"
check "with answers" grep -q '"expected":"    return x"' "$work/answers.jsonl"
check "in both forms" test "$(grep -c '"T/1"' "$work/answers.jsonl")" = 2

echo '{"path": "x.py"}' >>"$work/set.jsonl"
check "a line that is neither" status 1 evaluate --set "$work/set.jsonl"
check "and which" says 'set.jsonl:3: neither' err
check "no set" status 1 evaluate --set /nowhere
check "it is named" says /nowhere err
check "an empty one" status 1 evaluate --set "$work/set/notes.txt"
check "none at all" status 2 ./cerium eval

mkdir "$work/shop"
python3 - "$work" <<'END'
import json, os, sys
os.chdir(sys.argv[1])
basket = "class Basket:\n    def total_of_prices(self):\n        return sum(self.prices)\n"
before = "from shop.basket import Basket\n\n\ndef show(basket):\n    print(basket.tot"
behind = "\n    return basket\n"
open("shop/basket.py", "w").write(basket)
open("shop/show.py", "w").write(before + behind)
with open("shop.jsonl", "w") as rows:
    print(json.dumps({"path": "shop/basket.py", "text": basket}), file=rows)
    print(json.dumps({"task_id": "shop/show.py", "prompt": before, "suffix": behind,
                      "canonical_solution": "al_of_prices())"}), file=rows)
END
bundled() {
    ./cerium eval -m models/cerium-line.gguf --set "$work/shop.jsonl" --lines 0 "$@" \
        --answers "$work/shop.answers"
}
answer() {
    python3 - "$work/shop.answers" <<'END'
import json, sys
rows = map(json.loads, open(sys.argv[1]))
print(*[row["answer"] for row in rows if row["form"] == "infill"])
END
}
completed() {
    (cd "$work" && "$here/cerium" complete -m "$here/models/cerium-line.gguf" --guard off --quiet \
        --repo shop "$@" shop/show.py:5)
}
here=$PWD
check "a hole alone" status 0 bundled
answer >"$work/alone"
check "behind a file of its folder" status 0 bundled --neighbour 4K
answer >"$work/behind"
check "is another question" differ "$work/alone" "$work/behind"
completed --context-file shop/basket.py >"$work/completed"

check "that which complete asks" cmp "$work/behind" "$work/completed"
check "by lines of the other files" status 0 bundled --retrieve 600
answer >"$work/found"
check "the name is found" grep -q '^al_of_prices(' "$work/found"
check "a name of others" says 'names others     1 ' out
check "none of its own alone" says 'names own        0 ' out
check "and what they gain" says 'less without snippets; tokens of a prompt' out
check "as much as who knows the answer" status 0 bundled --retrieve 600 --snippets oracle
answer >"$work/oracle"
check "finds" cmp "$work/found" "$work/oracle"
check "in JSON" status 0 bundled --retrieve 600 --json
gained() {
    python3 -c 'import json, sys; r = json.load(sys.stdin); d = r["languages"]["names others"]
t = r["prompt_tokens"]
gain = d["difference"]["infill"]["similar"]["value"]
sys.exit(gain <= 0 or t["with"] <= t["without"])' <"$work/out"
}
check "the difference, and its tokens" gained
check "without a file to take of" status 0 evaluate --set "$work/set" --retrieve 600
check "another word" status 2 bundled --retrieve 600 --snippets some
check "--help" status 0 ./cerium eval --help
report eval
