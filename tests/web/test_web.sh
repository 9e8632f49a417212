#!/bin/sh
# test_web.sh - the parts of the page that need no browser, in Node.  tests/clients/page.mjs drives
# the page itself.
. tests/shell.sh

if ! command -v node >/dev/null; then
    skip "the page's modules" "node is not installed"
    report web
    exit
fi
# Node treats a .js as a module if a package.json above it says so.
mkdir "$work/web"
cp web/*.js "$work/web"
echo '{"type": "module"}' >"$work/package.json"
node tests/web/check_modules.mjs "$work/web"
