#!/bin/sh
# test_wafer_docs.sh - figures and pictures of docs/wafer*.md are what the commands say now.
. tests/shell.sh

wafer="./cerium wafer"
configs=tests/wafer/configs

# in_page PAGE COMMAND...: every line that the command prints stands in the page.
in_page() {
    page=$1
    shift
    "$@" >"$work/lines" 2>"$work/err" || { cat "$work/err"; return 1; }
    [ -s "$work/lines" ] || return 1
    while IFS= read -r line; do
        [ -z "$line" ] || grep -qxF -e "$line" "$page" || { echo "not in $page: $line"; return 1; }
    done <"$work/lines"
}

# drawn NAME COMMAND...: the picture docs/wafer/NAME.svg is what the command draws.
drawn() {
    picture=$1
    shift
    "$@" "$work/drawn.svg" >"$work/out" && cmp "$work/drawn.svg" "docs/wafer/$picture.svg"
}

check "the walk through a plan" in_page docs/wafer.md \
    $wafer plan -m $configs/llama-3-8b.json --machine wse3
check "every row of the validation, and what constants move" in_page docs/wafer-validation.md \
    $wafer validate tests/wafer/calibration.csv --sensitivity
# The last digit of a coordinate may be another where multiply-adds are one instruction.
for model in llama-3-8b llama-3-70b qwen3-coder-30b-a3b gpt-oss-20b gpt-oss-120b; do
    [ "$(uname -m)" = x86_64 ] || { skip "pictures of $model" "drawn on x86-64"; continue; }
    check "the picture of $model" drawn "$model" \
        $wafer plan -m "$configs/$model.json" --machine cs3 --picture
    check "the charts of $model" drawn "$model-compare" \
        $wafer compare -m "$configs/$model.json" --machines cs3,dgx-h100 --plots
done
report wafer_docs
