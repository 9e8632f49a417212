#!/bin/sh
# make_vsix.sh - the VS Code extension as a package: build/cerium-vscode.vsix, from editors/vscode
# and the language client of npm that it names.
#
# A .vsix is a zip of two descriptions and the extension; nothing of vsce is needed.
set -e
cd "$(dirname "$0")/.."
for program in npm python3; do
    command -v $program >/dev/null && continue
    echo "make vscode: there is no $program" >&2
    exit 1
done
mkdir -p build/vscode
cp editors/vscode/package.json build/vscode/package.json
if ! cmp -s editors/vscode/package.json build/vscode/installed.json; then
    npm --prefix build/vscode install --omit=dev --ignore-scripts --no-audit --no-fund \
        --no-package-lock >build/vscode/npm.log 2>&1 || {
        tail -n 5 build/vscode/npm.log >&2
        exit 1
    }
    cp editors/vscode/package.json build/vscode/installed.json
fi
exec python3 tools/make_vsix.py editors/vscode build/vscode/node_modules build/cerium-vscode.vsix
