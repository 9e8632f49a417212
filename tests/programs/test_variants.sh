#!/bin/sh
# test_variants.sh - many answers at once, and the likeliest of them.
. tests/shell.sh

export CERIUM_MODEL=tests/golden/fixtures/qwen2-q8_0.gguf
shows_best() { # with the bundled model, whose tokens are whole characters
    export CERIUM_MODEL=models/cerium-line.gguf
    best=$(./cerium run -p x -n 12 --temp 1 --best-of 6 --json |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["seed"])')
    ./cerium run -p x -n 12 --temp 1 --best-of 6 --quiet >"$work/one" &&
        ./cerium run -p x -n 12 --temp 1 --seed "$best" --quiet >"$work/two" &&
        cmp "$work/one" "$work/two"
}
says_nothing() { # the first token is the end of every answer
    export CERIUM_MODEL=models/cerium-line.gguf
    first=$(./cerium run --no-healing -p 'x = ' -n 1 --json |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["text"])') &&
        ./cerium run --no-healing -p 'x = ' -n 4 --temp 1e-6 --best-of 2 --stop "$first" --quiet \
            >"$work/nothing" &&
        printf 'x = \n' | cmp - "$work/nothing"
}
check "sixteen answers, one thread" python3 tests/programs/check_variants.py 1
check "sixteen answers, two threads" python3 tests/programs/check_variants.py 2
check "greedy answers" refused 2 "needs a temperature" ./cerium run -p x --best-of 2
check "too many" refused 2 "--best-of" ./cerium run -p x --best-of 65 --temp 1
check "with --top" refused 2 "goes without" ./cerium run -p x --best-of 2 --temp 1 --top 3 --json
check "the best is shown" shows_best
check "the best is empty" says_nothing
report variants
