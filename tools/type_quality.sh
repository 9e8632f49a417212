#!/bin/sh
# type_quality.sh - the measured cost of each type of weights, as C: from the table of `make
# bench-quant` in docs/quantization.md nats per token above the whole model (by perplexity), and the
# share of tokens where the likeliest one is the same.
#
#   tools/type_quality.sh >src/programs/type_quality.h
cd "$(dirname "$0")/.." || exit 1
awk -F ' *[|] *' '
    BEGIN {
        print "/* type_quality.h - measured loss of quality of each type: tools/type_quality.sh."
        print " * X(type, nats a token above F16, share of likeliest tokens that are the same) */"
        print "#ifndef PROGRAMS_TYPE_QUALITY_H\n#define PROGRAMS_TYPE_QUALITY_H\n"
        printf "#define TYPE_QUALITY_MAP(X)"
    }
    NF == 11 && $4 ~ /^[0-9.]+$/ && $6 ~ /^[0-9.]+$/ && $2 ~ /^[A-Z0-9_]+$/ {
        if ($2 == "F16") whole = $4
        printf " \\\n    X(BLOCK_%s, %.4f, %.3f)", $2, log($4 / whole), $6 / 100
    }
    END { print "\n\n#endif" }' docs/quantization.md
