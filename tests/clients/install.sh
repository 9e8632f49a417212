#!/bin/sh
# install.sh - install the real clients that the tests run, each into a folder under build/clients.
#
#   tests/clients/install.sh FOLDER
#
# Anything present in the right version is not downloaded again.  Anything unavailable leaves a file
# FOLDER/missing/NAME that says why, and its tests are skipped.
case ${1:?usage: install.sh FOLDER} in /*) folder=$1 ;; *) folder=$PWD/$1 ;; esac
mkdir -p "$folder/missing" "$folder/node" || exit 1
rm -f "$folder"/missing/*
here=$(dirname "$0")

# missing NAME WHY
missing() { echo "$2" >"$folder/missing/$1"; }

# try NAME COMMAND...: on failure missing, with the last line of the command's output.
try() {
    try_name=$1
    shift
    timeout 600 "$@" >"$folder/log" 2>&1 && return 0
    missing "$try_name" "cannot be installed: $(grep . "$folder/log" | tail -n 1 | cut -c 1-200)"
    return 1
}

# npm_install NAME PACKAGE@VERSION...
npm_install() {
    npm_name=$1
    shift
    for package; do
        version=${package##*@} path=$folder/node/node_modules/${package%@*}/package.json
        grep -q "\"version\": *\"$version\"" "$path" 2>/dev/null && continue
        echo "  installing $package" >&2
        (cd "$folder/node" && try "$npm_name" npm install --no-audit --no-fund --no-progress \
            --fetch-retries=0 --fetch-timeout=60000 --save-exact "$package") || return 1
    done
}

[ -e "$folder/node/package.json" ] || echo '{"private": true}' >"$folder/node/package.json"
"$here/../../tools/install_packages.sh" test-clients

if command -v npm >/dev/null; then
    # The SDK needs Node 22, and Debian has an older one.
    npm_install node node@22.23.3
    npm_install openai-node openai@7.59.0 ws@8.23.0 zod@4.6.7
    npm_install codex @openai/codex@0.169.0
    npm_install opencode opencode-ai@1.18.33
    npm_install continue @continuedev/cli@1.5.47
    npm_install cline cline@3.0.65
    npm_install qwen-code @qwen-code/qwen-code@0.15.10
    npm_install playwright playwright-core@1.65.1
    npm_install claude-code @anthropic-ai/claude-code@2.1.331
    npm_install others-node @anthropic-ai/sdk@1.14.0 ollama@0.6.4
    for name in openai-node others-node; do
        [ -e "$folder/missing/node" ] && missing "$name" "there is no Node 22"
    done
else
    for name in node openai-node codex opencode continue cline qwen-code playwright \
        claude-code others-node; do
        missing "$name" "there is no npm"
    done
fi
command -v chromium >/dev/null || missing playwright "there is no chromium"
command -v curl >/dev/null || missing curl "there is no curl"

# python_env NAME FOLDER PACKAGE==VERSION...: a virtual environment with only these; NAME is
# reported as missing if that fails.
python_env() {
    name=$1 environment=$folder/$2
    shift 2
    "$environment/bin/python3" -c 'import sys; from importlib.metadata import version
sys.exit(any(version(name) != wanted for name, wanted in
             (package.split("==") for package in sys.argv[1:])))
' "$@" 2>/dev/null && return
    try "$name" python3 -m venv "$environment" || return
    echo "  installing $*" >&2
    try "$name" "$environment/bin/python3" -m pip install -q --disable-pip-version-check \
        --retries 0 "$@"
}

python_env openai-python python openai==3.57.0 websockets==15.0.1 prometheus_client==0.26.0
# They need another version of the SDK.
python_env llm python-others llm==0.36 litellm==1.110.2
# It pins the version of each of its packages.
python_env aider python-aider aider-chat==0.86.2
# They need a newer pydantic.
python_env sdk_others python-messages anthropic==2.14.0 ollama==0.6.3
exit 0
