#!/bin/sh
# test_relatives.sh - accepted texts of grammars and schemas related to those that once failed
# (relatives.jsonl, each text with the right result), and that no keyword is left out.
. tests/shell.sh
command -v python3 >/dev/null || {
    skip "relatives of grammars" "there is no python3"
    report "grammar relatives"
    exit
}
"$O/grammar_match" <tests/grammar/relatives.jsonl >"$work/answers"
compare() {
    python3 - "$1" "$work/answers" <<'PYTHON'
import json, sys
lines = [[json.loads(x) for x in open(p)] for p in sys.argv[1:]]
bad = ["%s: %s" % (a["why"], json.dumps(b)) for a, b in zip(*lines)
       if b.get("matches") != a["want"] or "left_out" in b]
print("\n".join(bad))
sys.exit(bool(bad) or len(lines[0]) != len(lines[1]))
PYTHON
}
check "all $(grep -c . tests/grammar/relatives.jsonl) are as they should be" \
    compare tests/grammar/relatives.jsonl
sed '7s/true/false/' tests/grammar/relatives.jsonl >"$work/bad"
check_fails "one that is not" "uuid" compare "$work/bad"
report "grammar relatives"
