#!/bin/sh
# test_wafer_simulate.sh - `cerium wafer simulate` as a user meets it: the CPU's text and logits
# from a mesh, figures, and one line for what cannot be.
. tests/shell.sh

bundled=models/cerium-first.gguf
small=tests/golden/fixtures/qwen2-q8_0.gguf
simulate() { ./cerium wafer simulate "$@" </dev/null; }
# figure NAME: of the JSON in $work/json.
figure() { sed -n "s/^ *\"$1\": \"*\([^\",]*\)\"*,*$/\1/p" "$work/json"; }
is() { [ "$(figure "$1")" = "$2" ] || { echo "$1 is $(figure "$1"), not $2"; return 1; }; }

check "help" simulate --help
check "help has an example" sh -c './cerium wafer simulate --help | grep -q "^example: "'
check "the wafer's help names it" sh -c './cerium wafer --help | grep -q simulate'

# ---- the bundled model on 32 x 32 cores ----
text='def fibonacci(n):'
simulate -m $bundled -p "$text" -n 12 --verify 4 >"$work/mesh" 2>"$work/err"
check "equal order is the CPU's to the bit" grep -q "to the bit at 12 of 12 places" "$work/err"
check "the text is verified as a draft" grep -q "verified 12 tokens in passes of 4" "$work/err"
./cerium run --raw --no-healing --quiet --head full -m $bundled -p "$text" -n 12 \
    >"$work/cpu" 2>/dev/null
check "the text is the CPU's" cmp "$work/cpu" "$work/mesh"
simulate -m $bundled -p "$text" -n 12 --order mesh --json >"$work/json" 2>"$work/err"
check "mesh order is within its bound" is bounded 12
check "what is certain is the same" test "$(figure certain)" -le "$(figure same_best)"
check "and most of it is" test "$(figure certain)" -ge 4
check "on 32 columns" is width 32

# ---- what can be set ----
simulate -m $small -p 'int x' -n 6 --machine small --order mesh --degree 1 --kv-policy shift \
    --kv f32 --events --batch 3 >"$work/out" 2>"$work/err"
check "a machine's mesh" grep -q "^8 x 8 cores, mesh order" "$work/err"
check "events by kind" grep -q "^ffn-down " "$work/err"
simulate -m $small -p 'int x' -n 6 --mesh 4x4 --order mesh --fused --kv f32 --json \
    >"$work/json" 2>"$work/err"
check "norms that ride on products" is same_best 6
simulate -m $small -p 'int x' -n 6 --mesh 3x5 --no-compare --json --temp 1 --top-k 5 --seed 3 \
    >"$work/json" 2>"$work/err"
check "alone" is height 5
check "then nothing is compared" test -z "$(figure places)"

# ---- what cannot be ----
check "no mesh" refused 2 "--mesh" simulate -p x --mesh 8
check "a mesh without cores" refused 1 "width 0: must be 1 to 256" \
    simulate -m $small -p x --mesh 0x4
check "a whole wafer" refused 1 "take a part of at most 256 x 256" \
    simulate -m $small -p x --machine wse3
check "a GPU" refused 1 "has no mesh of cores" simulate -m $small -p x --machine dgx-h100
check "too many phases" refused 1 "need 36 colours and a router has 24" simulate -m $small -p x \
    --order mesh --degree 4
check "a core too small" refused 1 "take a larger --mesh or a smaller --context" \
    simulate -m $bundled -p x --machine small --mesh 1x1
check "fused sums in the CPU's order" refused 1 "take mesh order" simulate -m $small -p x --fused
check "a draft of drawn text" refused 2 "--verify is of greedy text" \
    simulate -p x --verify 4 --temp 1
check "a prompt too long" refused 1 "the context has 8" \
    simulate -m $small -p 'int main(void)' --context 8
check "an unknown type" refused 1 "there are i8, f16, f32" simulate -m $small -p x --kv f8
check "no model" refused 1 "/nowhere.gguf" simulate -m /nowhere.gguf -p x
report wafer_simulate
