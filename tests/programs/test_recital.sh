#!/bin/sh
# test_recital.sh - a made model that recites says what it was given to say, in every type.
. tests/shell.sh

make_model=$O/tool_make_model
text='int zebra(quick,ox)jumps.over-lazy+dog*42;{}'
recite() { # TYPE: the rest of the text after its first word
    "$make_model" --shape test-qwen2 --type "$1" --vocab 4096 --recite "$work/recital" \
        -o "$work/recites.gguf" &&
        ./cerium run --raw --quiet --guard off -m "$work/recites.gguf" -p int -n "$n" \
            >"$work/said" 2>/dev/null && printf '%s' "$text" >"$work/wanted" &&
        head -c ${#text} "$work/said" | cmp - "$work/wanted"
}

"$make_model" --shape test-qwen2 --vocab 4096 -o "$work/words.gguf" 2>/dev/null
printf '%s' "$text" | ./cerium tokenize -m "$work/words.gguf" --ids - >"$work/recital"
n=$(($(wc -w <"$work/recital") - 1))
check "the text is some words" test "$n" -gt 15
for type in q4_0 q8_0 q4_k f16; do check "recited in $type" recite $type; done

# A smaller model of another vocabulary drafts: half of the tokens come by its guesses, and more.
made() { # VOCABULARY TYPE
    "$make_model" --shape test-qwen2 --vocab "$1" --type "$2" -o "$work/words.gguf" 2>/dev/null &&
        printf '%s' "$text" | ./cerium tokenize -m "$work/words.gguf" --ids - >"$work/recital-$1" &&
        "$make_model" --shape test-qwen2 --vocab "$1" --type "$2" --context 1024 \
            --recite "$work/recital-$1" -o "$work/recites-$1.gguf" 2>/dev/null
}
drafted() { "$O/engine_draft_model" "$work/recites-$1.gguf" "$work/recites-$2.gguf" \
    "$text" "${text#int}"; }
made 4096 q4_0 && made 32000 q8_0
check "drafted in another vocabulary" drafted 32000 4096

printf '5 6\n7 6\n' >"$work/recital"
check_fails "two before one" "recital:2: a token that follows two others" recite q4_0
printf '5 6 5 7\n' >"$work/recital"
check_fails "two behind one" "recital:1: a token that is followed by two others" recite q4_0
printf '5 4096\n' >"$work/recital"
check_fails "no such token" "recital:1: not a token of the vocabulary" recite q4_0
report recital
