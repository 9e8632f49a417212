#!/bin/sh
# test_documents.sh - documents sampled under many grammars are valid, by validators from PyPI, and
# by the JSON-Schema-Test-Suite nothing invalid is accepted.
#
#   tests/grammar/test_documents.sh [N]     # default 800
#
# The validators, and the JSON-Schema-Test-Suite that comes with the source of one of them, are
# installed into build/documents once.
. tests/shell.sh

version=4.26.0
place=build/documents
suite=$place/jsonschema-$version/json/tests/draft2020-12
export SAMPLE="$O/grammar_sample" MATCH="$O/grammar_match"
has_suite() {
    [ -d $suite ] && return
    quiet_pip download --no-deps --no-binary :all: -d $place jsonschema==$version &&
        tar -C $place -xzf $place/jsonschema-$version.tar.gz
} >"$work/suite" 2>&1
why="no JSON-Schema-Test-Suite"
python_with $place 'jsonschema, lark, rfc3339_validator' \
    "jsonschema[format-nongpl]==$version" lark==1.3.1 && has_suite || {
    skip "sampled documents" "their validators cannot be installed: $why"
    report documents
    exit
}

documents() { $python tests/grammar/documents.py "$@"; }
if [ $# -gt 0 ]; then
    check "$1 documents are valid" documents "$1" $suite
    tail -n 1 "$work/.output"
    report documents
    exit
fi
model=tests/golden/fixtures/qwen2.gguf
check "800 documents are valid" documents 800 $suite $model
check "nothing that the suite calls invalid is accepted" \
    $python tests/grammar/oracles.py suite $suite
check "all that fits random schemas is accepted" $python tests/grammar/oracles.py random 100
# Each of the three validators gets one invalid document.
for kind in schema lark regex; do
    check_fails "one that is spoiled: $kind" "INVALID $kind" documents 20 - $model --spoil $kind
done
report documents
