#!/bin/sh
# test_programs.sh - the commands as a user meets them: exit status, what goes to which output,
# one line for an error, the same text for the same seed.
. tests/shell.sh

export CERIUM_MODEL=tests/golden/fixtures/qwen2-q8_0.gguf
commands="run verify complete edit bench perplexity tokenize quantize imatrix inspect"

same() {
    "$@" >"$work/one" 2>/dev/null && "$@" >"$work/two" 2>/dev/null &&
        cmp "$work/one" "$work/two"
}
quiet_run() { ./cerium run --raw --quiet "$@" 2>/dev/null; }

# ---- help and bad usage ----
check "help" status 0 ./cerium --help
check "version" status 0 ./cerium --version
check "no command" status 2 ./cerium
check "an unknown command" refused 2 "there is no command 'fly'" ./cerium fly
for command in $commands; do
    check "$command --help" status 0 ./cerium "$command" --help
    check "$command --help has an example" says "cerium $command" out
    check "$command with an unknown option" refused 2 "cerium $command --help" \
        ./cerium "$command" --fly
done
check "a value out of range" refused 2 "--temp" ./cerium run -p x --temp warm
check "two prompts" refused 2 "one prompt" ./cerium run a b
check "a place without a line" refused 2 "FILE:LINE" ./cerium complete README.md

# ---- files that are not there, or not models ----
printf 'GGUF is not all' >"$work/broken.gguf"
head -c 4000 "$CERIUM_MODEL" >"$work/cut.gguf"
for command in "run -p x" "bench --runs 1" "perplexity README.md" "inspect"; do
    # Words of a command line, on purpose.
    check "$command: no such model" refused 1 "/nowhere.gguf" ./cerium $command -m /nowhere.gguf
    check "$command: a broken model" refused 1 "broken.gguf" \
        ./cerium $command -m "$work/broken.gguf"
    check "$command: a cut model" refused 1 "cut.gguf" ./cerium $command -m "$work/cut.gguf"
done
# A block that is all ones has a scale that is none: the last one, and one of a matrix.
size=$(wc -c <"$CERIUM_MODEL")
spoil() { # NAME BYTE
    cp "$CERIUM_MODEL" "$work/$1.gguf" && chmod u+w "$work/$1.gguf" &&
        printf '\377\377\377\377\377\377\377\377%.0s' 1 2 3 4 5 6 7 8 9 |
        dd of="$work/$1.gguf" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
spoil end $((size - 72))
spoil middle $((size * 3 / 4))
for name in end middle; do
    check "$name: a weight that is no number" refused 1 "has a value that is not a number" \
        ./cerium run -p x -m "$work/$name.gguf"
    check "$name: its tensor is named" says ": tensor " err
    check "$name: is not quantized" refused 1 "has a value that is not" \
        ./cerium quantize "$work/$name.gguf" "$work/out.gguf" Q4_1
done
check "no such prompt file" refused 1 "/nowhere.txt" ./cerium run -f /nowhere.txt
check "no such file to complete" refused 1 "/nowhere.c" ./cerium complete /nowhere.c:1
check "no such line" refused 2 "lines" ./cerium complete LICENSE:99999

# ---- run ----
check "text on output, figures on error" status 0 ./cerium run --raw -p "int main" -n 8
check "the prompt is on output" says "int main" out
check "the speed is on error" says "tokens/s" err
printf 'int main' >"$work/prompt"
quiet_run -p "int main" -n 8 >"$work/by_option"
quiet_run -f "$work/prompt" -n 8 >"$work/by_file"
quiet_run -n 8 <"$work/prompt" >"$work/by_input"
check "the prompt from a file" cmp "$work/by_option" "$work/by_file"
check "the prompt from standard input" cmp "$work/by_option" "$work/by_input"
quiet_run -p "int x" -n 16 >"$work/greedy"
quiet_run -p "int x" -n 16 --temp 1 --top-p 0 --seed 7 >"$work/top_p_0"
check "--top-p 0 is greedy, as in requests" cmp "$work/greedy" "$work/top_p_0"
little_stack() { (ulimit -s 256 && "$@"); }
check "256 KiB of stack are enough to run" little_stack status 0 ./cerium run --raw -p x -n 2
echo 'x = 1' >"$work/one.py"
check "and to scan" little_stack status 0 ./cerium scan "$work/one.py"
own_stacks() { ! grep -ln 'pthread_create(' src/*/*.c | grep -v '^src/base/thread.c$'; }
check "every thread has a stack of its own size" own_stacks
check "greedy twice" same ./cerium run -p "int x" -n 16
check "a seed twice" same ./cerium run -p "int x" -n 16 --temp 1 --top-p 0.9 --seed 7
quiet_run -p "int x" -n 16 --temp 1 --seed 7 >"$work/seven"
quiet_run -p "int x" -n 16 --temp 1 --seed 8 >"$work/eight"
check_fails "another seed, another text" differ cmp "$work/seven" "$work/eight"
for threads in 1 2 3; do
    quiet_run -p "int x" -n 16 --threads "$threads" --batch "$threads" >"$work/threads$threads"
    check "the same text on $threads threads" cmp "$work/threads1" "$work/threads$threads"
done
for cpu in ref avx2 avx512vnni amx; do
    if status 0 env CERIUM_CPU="$cpu" ./cerium run --raw --quiet -p "int x" -n 16 >/dev/null; then
        check "the same text with $cpu" cmp "$work/threads1" "$work/out"
    else
        skip "text with $cpu" "this processor lacks it"
    fi
done

# ---- the others ----
perplexity() { ./cerium perplexity --window 64 --windows 2 -f LICENSE "$@"; }
check "perplexity" status 0 perplexity
cp "$work/out" "$work/i8"
check "keys and values are in 8 bits unless told" status 0 perplexity --kv i8
check "to the digit" cmp "$work/i8" "$work/out"
check "with keys and values in F16" status 0 perplexity --kv f16
cp "$work/out" "$work/f16"
check_fails "they are kept so" differ cmp "$work/i8" "$work/f16"
check "with keys and values in F32" status 0 perplexity --kv f32
cp "$work/out" "$work/f32"
check_fails "and these so" differ cmp "$work/f16" "$work/f32"
check "the same by the environment" status 0 env CERIUM_KV=f32 ./cerium perplexity --window 64 \
    --windows 2 -f LICENSE
check "and to the digit" cmp "$work/f32" "$work/out"
check "an unknown type" refused 2 "there are i8, f16, f32" ./cerium perplexity --kv f8 -f LICENSE
check "bench" status 0 ./cerium bench --prefill 16 --decode 4 --depth 0 --runs 1 --json
check "bench --json is JSON" says '{' out
bench_adds_up() { # the roofline is the rate over all bytes of a token; $1: of those of states
    python3 -c '
import json, sys
b = json.load(open(sys.argv[1]))
n = b["token_bytes"] + b["kv_bytes"] + 2 * b["state_bytes"]
assert b["kv_bytes"] > 0 and b["roofline_share"] > 0, b
assert (b["state_bytes"] > 0) == (sys.argv[2] == "some"), b
assert abs(n * b["roofline_tokens_per_s"] / b["read_model_all"] - 1) < 1e-9, b' "$work/out" "$1"
}
check "bench counts weights and KV in the roofline" bench_adds_up none
check "bench of a hybrid model" status 0 ./cerium bench -m tests/golden/fixtures/qwen35.gguf \
    --prefill 16 --decode 4 --depth 0 --runs 1 --json
check "counts its states, too" bench_adds_up some
quality() { # the same figures by perplexity, with and without --exact
    head -c 200 LICENSE >"$work/text"
    ./cerium bench --prefill 16 --decode 4 --depth 0 --runs 1 --json --quality "$work/text" \
        >"$work/quality" || return 1
    for way in "" "--exact"; do
        ./cerium perplexity --window 256 --scores "$work/scores$way" $way \
            "$work/text" >"$work/out" || return 1
    done
    python3 - "$work" <<'END'
import json, sys
work = sys.argv[1]
said = json.load(open(work + "/quality"))["quality"]
have, exact = ([line.split() for line in open(work + "/scores" + way)] for way in ("", "--exact"))
apart = [float(e[1]) - float(h[1]) for h, e in zip(have, exact)]
n = len(apart)
want = {"tokens": n, "nats_above_floats": sum(apart) / n,
        "likeliest_the_same": sum(h[2] == e[2] for h, e in zip(have, exact)) / n,
        "logprob_error": sum(map(abs, apart)) / n}
assert n > 100 and want["logprob_error"] > 0, want
assert all(abs(said[k] - v) < 1e-6 for k, v in want.items()), (said, want)
END
}
check "bench --quality: how far 8 bits are from floats, as perplexity has it" quality
check "of a text that is not there" refused 1 "/nowhere.txt" ./cerium bench --quality /nowhere.txt
check "of one that is too short" refused 2 "too short" sh -c \
    'printf x >"$1/x" && exec ./cerium bench --quality "$1/x"' sh "$work"
check "of edits" refused 2 "exclude each other" ./cerium bench --quality x --replay x
cat >"$work/edits.jsonl" <<'END'
{"before":"int a = 1;\nint b = 2;\nint c = 3;\n", "after":"int a = 1;\nint c = 4;\n"}
END
edits() { ./cerium bench --replay "$work/edits.jsonl" --context 256 "$@"; }
check "recorded edits" status 0 edits --plain 8
check "edits are counted" says '1 edits' out
check "an answer takes no memory" says ' 0 allocations' out
echo '{"before":"x","after":1}' >>"$work/edits.jsonl"
check "an edit without a text" status 1 edits --plain 0
check "and which it is" says 'edits.jsonl:2: `before` and `after` must be strings' err
for text in drafts plain; do
    [ $text = drafts ] && option= || option=--no-speculation
    check "text with $text" status 0 ./cerium run --raw --quiet -n 120 --temp 0.8 --seed 4 $option \
        -p 'static int parse(const char *s)'
    cp "$work/out" "$work/$text"
done
check "drafts change nothing" cmp "$work/drafts" "$work/plain"
check "tokenize" status 0 ./cerium tokenize -p "int main(void)"
check "inspect" status 0 ./cerium inspect -m "$CERIUM_MODEL"
check "inspect names the architecture" says qwen2 out
check "and what its types were measured to cost" says ", +0.001 nats a token, 97.7% the same" out
./cerium inspect -m "$CERIUM_MODEL" --json >"$work/inspect" 2>/dev/null
check "as JSON" python3 -c "import json; q = json.load(open('$work/inspect'))['quality']['types']
assert q == {'Q8_0': {'nats_above_floats': 0.0012, 'likeliest_the_same': 0.977}}, q"
tools/type_quality.sh >"$work/type_quality.h"
check "which is the table of docs/quantization.md" cmp "$work/type_quality.h" \
    src/programs/type_quality.h
check "a plan" status 0 ./cerium inspect --plan --threads 1
check "it has the memory" says "memory" out
check "it has a speed" says "at most" out
check "a plan as JSON" status 0 ./cerium inspect --plan --json --context 64 --kv f32
check "its depth is the context" says '"depth": 64' out
check "a plan for no context" refused 2 "inspect" ./cerium inspect --plan --context 0

# ---- repacked weights that are kept ----
env CERIUM_CACHE="$work/kept" ./cerium run --raw --quiet -p "int x" -n 16 >"$work/one" \
    2>"$work/err"
check "the first start keeps them" test "$(ls "$work"/kept/*.panels | wc -l)" = 1
check "and says nothing of it" test ! -s "$work/err"
check "the second start has the same text" status 0 env CERIUM_CACHE="$work/kept" ./cerium run \
    --raw --quiet -p "int x" -n 16
check "to the byte" cmp "$work/one" "$work/out"
chmod 600 "$work"/kept/*.panels
printf x | dd of="$(ls "$work"/kept/*.panels)" bs=1 seek=50 conv=notrunc 2>/dev/null
check "a damaged file" status 0 env CERIUM_CACHE="$work/kept" ./cerium run --raw --quiet \
    -p "int x" -n 16
check "is told of in one line" test "$(grep -c 'damaged; made anew' "$work/err")" = 1
check "and changes nothing" cmp "$work/one" "$work/out"
rm -r "$work/kept"
check "--no-cache" status 0 env CERIUM_CACHE="$work/kept" ./cerium run --no-cache --raw --quiet \
    -p "int x" -n 16
check "keeps nothing" test ! -e "$work/kept"
check "and has the same text" cmp "$work/one" "$work/out"

# ---- the bundled model ----
if [ -e models/cerium-line.gguf ]; then
    unset CERIUM_MODEL
    printf 'int add(int a, int b)\n{\n    return \n}\n' >"$work/add.c"
    check "the bundled model continues a text" status 0 ./cerium run -p "int main(" -n 8
    check "the bundled model fills in" status 0 ./cerium complete "$work/add.c:3"
    check "with --show, in its place" status 0 ./cerium complete --show "$work/add.c:3"
    check "the line is there" says "    return " out
    check "with --json" status 0 ./cerium complete --json "$work/add.c:3"
    check "the text is there" says '"text"' out
    check "nothing is surer than sure" status 0 ./cerium complete --min-confidence 1 "$work/add.c:3"
    check "so it is held back" says "held back: confidence 0" err
    check_fails "and not written" test -s "$work/out"
    check "in JSON, too" status 0 ./cerium complete --min-confidence 1 --json "$work/add.c:3"
    check "with its confidence" says '"confidence": ' out
    check "without the text" says '"text": ""' out
    check "no confidence is under 0" status 0 ./cerium complete --min-confidence 0 --json \
        "$work/add.c:3"
    check "so this one is shown" says '"held_back": false' out
    printf 'int add(int a, int b)\r\n{\r\n    return \r\n}\r\n' >"$work/crlf.c"
    check "a line ends before both bytes of its break" status 0 ./cerium complete --show --quiet \
        "$work/crlf.c:3"
    breaks_are_whole() { ! grep -q "$(printf '\r.')" "$work/out"; }
    check "not between them" breaks_are_whole
    # A text, or a word that there is none.
    shows() {
        for place; do
            status 0 ./cerium complete --quiet "$place" && cat "$work/out" "$work/err" || return 1
            if test -s "$work/out"; then test ! -s "$work/err"; else
                says "the model has nothing to add here" err; fi || return 1
        done
    }
    printf 'a\rb\rc\r' >"$work/cr.py"
    check "what is empty is said" shows "$work/cr.py:1" "$work/add.c:1" "$work/add.c:3" \
        "$work/add.c:4"
    check "more than sure" refused 2 "min-confidence" ./cerium complete --min-confidence 1.1 x:1

    # Every type opens and predicts a text about as well as the file's own.
    model=models/cerium-line.gguf
    text_perplexity() {
        ./cerium perplexity --windows 2 --json -f LICENSE "$@" 2>"$work/err" |
            sed -n 's/^ *"perplexity": \([0-9.]*\).*/\1/p'
    }
    quantized() { # TYPE MOST
        status 0 ./cerium quantize --head "$1" "$wide" "$work/$1.gguf" "$1" || return 1
        got=$(text_perplexity -m "$work/$1.gguf")
        awk -v b="$got" -v w="$whole" -v m="$2" 'BEGIN { exit !(b > 0.98 * w && b < m * w) }' ||
            { echo "$1: $got of $whole"; return 1; }
    }
    # The bundled file is narrow already, so what is quantized is its weights as F16.
    wide=$work/f16.gguf
    "$O/tool_make_wide" -m $model --times 1 --type f16 -o "$wide" || exit 1
    whole=$(text_perplexity -m "$wide")
    for type in q4_0 q4_1 q4_k iq4_nl iq4_xs q4_w mxfp4; do
        check "quantized to $type" quantized $type 1.35
    done
    for type in q5_0 q5_1 q5_k q6_k q8_w; do
        check "quantized to $type" quantized $type 1.08
    done
    check "the file's own type is copied" status 0 ./cerium quantize $model "$work/same.gguf" q4_0
    check "as are wider ones" status 0 ./cerium quantize $model "$work/wide.gguf" q8_0
    check "what is not made is the same" status 0 ./cerium perplexity --windows 1 -f LICENSE \
        -m "$work/wide.gguf"
    check "only some" status 0 ./cerium quantize --only 'blk.*.ffn_*' --keep '*.2.*' "$wide" \
        "$work/some.gguf" q4_0
    layers=$(./cerium inspect -m $model --json | sed -n 's/^ *"n_layers": \([0-9]*\).*/\1/p')
    check "these are made" says "$((3 * (layers - 1))) tensors made" err
    check "an importance matrix" status 0 ./cerium imatrix -m $model --windows 2 README.md \
        "$work/columns.gguf"
    check "types by importance" status 0 ./cerium quantize --imatrix "$work/columns.gguf" \
        --head q4_0 "$wide" "$work/weighed.gguf" q4_0
    check "for every matrix" says "$((7 * layers + 1)) by importance" err
    check_fails "with other bytes" differ cmp "$work/weighed.gguf" "$work/q4_0.gguf"
    check "and about the same text" status 0 ./cerium perplexity --windows 1 -f LICENSE \
        -m "$work/weighed.gguf"
    check "a model is no importance matrix" refused 1 "not an importance matrix" \
        ./cerium quantize --imatrix $model $model "$work/x.gguf" q4_0
    check "one of another model" refused 1 "from another model" ./cerium quantize --imatrix \
        "$work/columns.gguf" tests/golden/fixtures/qwen3.gguf "$work/x.gguf" q8_0
    check "a text that is not there" refused 1 "/nowhere.txt" ./cerium imatrix -m $model \
        /nowhere.txt "$work/x.gguf"
    check "our own types are said to be ours" status 0 ./cerium inspect -m "$work/q4_w.gguf"
    check "in words" says "for cerium alone" out
    cp $model "$work/in.gguf"
    ln -s in.gguf "$work/link.gguf"
    check "never onto the input" refused 2 "the same file" \
        ./cerium quantize "$work/in.gguf" "$work/link.gguf" q4_0
    check "which stays" cmp $model "$work/in.gguf"
    check "no such type" refused 2 "'q3' is not a type" ./cerium quantize $model "$work/x.gguf" q3
    check "a type that is only read" refused 2 "IQ3_S is read, not written" \
        ./cerium quantize $model "$work/x.gguf" iq3_s
    check "as a head, too" refused 2 "Q2_K is read, not written" \
        ./cerium quantize --head q2_k $model "$work/x.gguf" q4_0
    # What is narrower than any type that is written stays, and says what it is.
    tensors() { ./cerium inspect --tensors "$1" | grep -E ' (Q|IQ|F)[0-9]+(_[A-Z0-9]+)* '; }
    stays() { # MIX TYPES...
        low=tests/golden/fixtures/llama-$1.gguf && shift
        status 0 ./cerium quantize "$low" "$work/low.gguf" q8_0 || return 1
        tensors "$low" >"$work/a" && tensors "$work/low.gguf" | cmp - "$work/a" || return 1
        for type; do grep -q " $type " "$work/a" || { echo "no $type"; return 1; }; done
    }
    check "Q2_K stays" stays q2_k Q2_K Q3_K Q6_K
    check "IQ3 stays" stays iq3 IQ3_XXS IQ3_S Q4_K
    check "IQ2 stays" stays iq2 IQ2_XXS IQ2_XS IQ2_S
    check "two operands" refused 2 "IN, OUT and TYPE" ./cerium quantize $model q4_0
    check "a broken model in" refused 1 "broken.gguf" \
        ./cerium quantize "$work/broken.gguf" "$work/x.gguf" q4_0
    check "no folder for the file" refused 1 "/nowhere/x.gguf" \
        ./cerium quantize $model /nowhere/x.gguf q4_0
    check_fails "nothing is left of what failed" "No such file" ls "$work"/x.gguf*
    for head in full search auto; do
        ./cerium run --raw --quiet --head $head -p "int x" -n 64 >"$work/head-$head" 2>/dev/null
        check "the same text with --head $head" cmp "$work/head-full" "$work/head-$head"
    done
    check "a narrow head" status 0 ./cerium run --head q4_w -p "int x" -n 8
    check "a wider one" refused 1 "not wider than F16" ./cerium run --head f16 -p x -n 1
    check "no such head" refused 2 "there are auto, full, search" ./cerium run --head q3 -p x -n 1
    cp ./cerium "$work/cerium"
    check "without a model" refused 2 "name one with -m" "$work/cerium" run -p x
else
    skip "the bundled model" "models/cerium-line.gguf is not in this checkout"
fi
report programs
