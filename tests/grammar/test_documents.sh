#!/bin/sh
# test_documents.sh - documents sampled under many grammars are valid, by validators from PyPI, and
# the JSON-Schema-Test-Suite finds nothing that is taken and should not be.
#
#   tests/grammar/test_documents.sh [N]     # 800 unless told
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
check "nothing is taken that the suite calls invalid" $python tests/grammar/oracles.py suite $suite
check "all is taken that fits random schemas" $python tests/grammar/oracles.py random 100
# Each of the three validators is given one that is not.
for kind in schema lark regex; do
    check_fails "one that is spoiled: $kind" "INVALID $kind" documents 20 - $model --spoil $kind
done
report documents
