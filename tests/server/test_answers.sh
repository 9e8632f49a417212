#!/bin/sh
# test_answers.sh - every route answers as docs/openapi.yaml says
# (check_answers.py).  The validator comes from PyPI into build/openapi.
. tests/shell.sh

python_with build/openapi 'openapi_spec_validator, jsonschema, yaml' \
    'openapi-spec-validator>=0.7,<1' || {
    skip "answers against the OpenAPI file" "jsonschema cannot be installed: $why"
    report answers
    exit
}
if [ "$O" ]; then CERIUM=$PWD/$O/cerium; else CERIUM=${CERIUM:-$PWD/cerium}; fi
export CERIUM CLIENTS="${CLIENTS:-$PWD/build/clients}" CLIENT_PATIENCE="${CLIENT_PATIENCE:-1}"
exec $python tests/server/check_answers.py
