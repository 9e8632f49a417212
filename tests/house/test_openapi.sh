#!/bin/sh
# test_openapi.sh - docs/openapi.yaml is valid OpenAPI 3.1, and its examples and the messages of
# docs/server.md fit it.  The validator comes from PyPI into build/openapi.
. tests/shell.sh

python_with build/openapi 'openapi_spec_validator, jsonschema, yaml' \
    'openapi-spec-validator>=0.7,<1' || {
    skip "the OpenAPI file" "openapi-spec-validator cannot be installed: $why"
    report openapi
    exit
}

valid() { $python tests/house/check_openapi.py "$1" "$2"; }
check "it is valid, and so are the examples" valid docs/openapi.yaml docs/server.md

# Each with one fault.
sed 's/^  version: .*//' docs/openapi.yaml >"$work/bad.yaml"
check_fails "without a version" "'version' is a required property" valid "$work/bad.yaml" \
    docs/server.md
sed 's/operationId: getLive/operationId: getReady/' docs/openapi.yaml >"$work/bad.yaml"
check_fails "with an id twice" "getReady" valid "$work/bad.yaml" docs/server.md
sed 's/input_prefix: "int main(void).n", //; s/n_predict: 32/n_predict: many/' docs/openapi.yaml \
    >"$work/bad.yaml"
check_fails "with a wrong example" "'many' is not of type 'integer'" valid "$work/bad.yaml" \
    docs/server.md
sed 's/"reason": "stop"/"reason": "tired"/' docs/server.md >"$work/bad.md"
check_fails "with a wrong message" "'tired' is not one of" valid docs/openapi.yaml "$work/bad.md"
# Each path of src/server/routes.c ("/v1" is left out there); but what has no answer of its own.
undescribed() {
    sed -n '/ollama_unserved/d; s/^    {"\(\/[^"{]*\).*/\1/p' src/server/routes.c | sort -u |
        while read -r path; do
            grep -Eq "^  (/v1)?$path(\{.*\})?:" "$1" || echo "$path"
        done
}
check "it has every path that is served" test -z "$(undescribed docs/openapi.yaml)"
sed '/^  .api.hello:/d' docs/openapi.yaml >"$work/bad.yaml"
check "without a path, that one" test "$(undescribed "$work/bad.yaml")" = /api/hello
version=$(sed -n 's/^.define CERIUM_VERSION_[MP][A-Z]* //p' include/cerium.h | paste -sd.)
check "it has the version of the header" grep -qx "  version: $version" docs/openapi.yaml
report openapi
