#!/bin/sh
# test_wafer_simulate.sh - `cerium wafer simulate` as a user meets it: the CPU's text and logits
# from a mesh, figures, and one line for what cannot be.
. tests/shell.sh

bundled=models/cerium-line.gguf
small=tests/golden/fixtures/qwen2-q8_0.gguf
experts=tests/golden/fixtures/qwen3moe.gguf
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
check "and some of it is" test "$(figure certain)" -ge 1
check "on 32 columns" is width 32

# ---- what can be set ----
simulate -m $small -p 'int x' -n 6 --machine small --order mesh --degree 1 --kv-policy shift \
    --kv f32 --events --batch 3 >"$work/out" 2>"$work/err"
check "a machine's mesh" grep -q "^8 x 8 cores, mesh order" "$work/err"
check "events by kind" grep -q "^ffn-down " "$work/err"
simulate -m $small -p 'int x' -n 6 --mesh 4x4 --order mesh --fused --kv f32 --json \
    >"$work/json" 2>"$work/err"
check "norms that ride on products, within the bound" is bounded 6
check "what is certain there is the same" test "$(figure certain)" -le "$(figure same_best)"
simulate -m $experts -p 'int x' -n 6 --mesh 9x8 --expert-groups 3 --order mesh --kv f32 --json \
    >"$work/json" 2>"$work/err"
check "experts on groups" is same_best 6
check "of the given size" is expert_group 3
simulate -m $experts -p 'int x' -n 6 --mesh 9x8 --expert-groups 3 >"$work/out" 2>"$work/err"
check "in equal order the CPU's" grep -q "to the bit at 6 of 6 places" "$work/err"
simulate -m $experts -p 'int main(void)' -n 6 --mesh 5x4 --mesh-gemm --order mesh --kv f32 --json \
    >"$work/json" 2>"$work/err"
check "a prompt as MeshGEMM products" is same_best 6
check "what it sends is counted apart" grep -q prompt_events "$work/json"
simulate -m $small -p 'int x' -n 9 --mesh 4x4 --draft 4 --draft-model $small --draft-mesh 2x2 \
    >"$work/out" 2>"$work/err"
check "a draft that is always right" grep -q "drafts: 6 of 6 right, 4.00 tokens a pass" "$work/err"
check "and the CPU's bits behind it" grep -q "to the bit at 9 of 9 places" "$work/err"
simulate -m $small -p 'int x' -n 9 --mesh 4x4 --draft 3 --draft-model $experts \
    >"$work/wrong" 2>"$work/err"
check "a draft that is not is no other text" cmp "$work/out" "$work/wrong"
simulate -m $small -p 'int x' -n 9 --mesh 4x4 --draft 4 --draft-model $small --draft-mesh 2x2 \
    --overlap >"$work/wrong" 2>"$work/err"
check "drafts while a pass is verified" \
    grep -q "overlapped: 2 of 2 passes foreseen, 9 guesses made" "$work/err"
check "are no other text either" cmp "$work/out" "$work/wrong"
check "nor other bits" grep -q "to the bit at 9 of 9 places" "$work/err"
check "in microseconds a token" grep -Eq "^[0-9.]+ microseconds a token by tuned" "$work/err"
simulate -m $small -p 'int x' -n 9 --mesh 4x4 --draft 3 --draft-model $experts --overlap --json \
    >"$work/json" 2>"$work/err"
check "none is foreseen of a draft that is wrong" is foreseen 0
check "cycles of a step by both kernels" test "$(figure tuned_step_cycles | cut -d. -f1)" -lt \
    "$(figure sdk_step_cycles | cut -d. -f1)"
simulate -m $small -p 'int x' -n 6 --mesh 3x5 --no-compare --json --temp 1 --top-k 5 --seed 3 \
    >"$work/json" 2>"$work/err"
check "alone" is height 5
check "then nothing is compared" test -z "$(figure places)"

# ---- what cannot be ----
check "no mesh" refused 2 "--mesh" simulate -p x --mesh 8
check "a mesh without cores" refused 2 "width 0: must be 1 to 256" \
    simulate -m $small -p x --mesh 0x4
check "a whole wafer" refused 2 "take a part of at most 256 x 256" \
    simulate -m $small -p x --machine wse3
check "a GPU" refused 2 "has no mesh of cores" simulate -m $small -p x --machine dgx-h100
check "too many phases" refused 2 "need 36 colours and a router has 24" simulate -m $small -p x \
    --order mesh --degree 4
check "a core too small" refused 1 "take a larger --mesh or a smaller --context" \
    simulate -m $bundled -p x --machine small --mesh 1x1
check "fused sums in the CPU's order" refused 2 "take mesh order" simulate -m $small -p x --fused
check "groups larger than the mesh" refused 2 "side of an expert group 5: must be 1 to 4" \
    simulate -m $experts -p x --mesh 4x6 --expert-groups 5
check "groups of no experts" refused 2 "this model has none" \
    simulate -m $small -p x --mesh 8x8 --expert-groups 2
check "MeshGEMM products in the CPU's order" refused 2 "take mesh order" \
    simulate -m $small -p x --mesh-gemm
check "a draft of another vocabulary" refused 2 "of the same vocabulary" \
    simulate -m $small -p x --draft 2 --draft-model $bundled
check "a draft of nobody" refused 2 "go together" simulate -m $small -p x --draft 2
check "an overlap of nothing" refused 2 "give --draft N" simulate -p x --overlap
check "a draft of drawn text" refused 2 "--verify is of greedy text" \
    simulate -p x --verify 4 --temp 1
check "a prompt too long" refused 2 "the context has 8" \
    simulate -m $small -p 'int main(void)' --context 8
check "an unknown type" refused 2 "there are i8, f16, f32" simulate -m $small -p x --kv f8
check "no model" refused 1 "/nowhere.gguf" simulate -m /nowhere.gguf -p x
report wafer_simulate
