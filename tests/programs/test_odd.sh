#!/bin/sh
# test_odd.sh - what people type that cannot work: tests/programs/odd_inputs.txt.
. tests/shell.sh

list=tests/programs/odd_inputs.txt
check "every line has its status and says what it should" python3 tests/programs/check_odd.py \
    ./cerium tests/golden/fixtures/qwen2-q8_0.gguf $list
tail -n 1 "$work/.output"
check "there are 300 and more" test "$(grep -vc -e '^#' -e '^$' $list)" -ge 300
report odd_inputs
