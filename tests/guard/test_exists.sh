#!/bin/sh
# test_exists.sh - `cerium scan --exists` over workspaces of each language: what is told, what is
# not, and where nothing is known.
. tests/shell.sh

C=$PWD/cerium
export CERIUM_CACHE=off
cd "$work" || exit 2
scan() { "$C" scan --exists "$@" >out 2>err; }
# tells STATUS LINE... : the findings are these, FILE:LINE: and how each begins, and no others.
tells() {
    want=$1 n=$#
    shift
    scan .
    got=$?
    for line; do grep -qF -e "$line" out || { echo "not told: $line"; cat out err; return 1; }; done
    [ "$got" = "$want" ] && [ "$(grep -c '^\./' out)" = $((n - 1)) ] || { cat out err; return 1; }
}
inside() { # FOLDER: empty, to work in
    mkdir "$work/$1" && cd "$work/$1" || exit 2
}

inside slips
printf 'import reqeusts, requests, parser, sparse, tools, mine\n' >a.py
printf 'const a = require("expresss"), b = require("lodahs"), c = require("lodash")\n' >a.js
if [ -x /usr/bin/python3 ]; then
    check "slips of known packages" tells 1 "./a.py:1: no known package is called reqeusts" \
        "./a.js:1: no known package is called lodahs"
    echo 'x = 1' >reqeusts.py
    check "but not a file of the workspace" tells 1 "./a.js:1:"
    echo '{"dependencies": {"lodahs": "1"}}' >package.json
    check "nor what a manifest names" tells 0
else
    skip "slips of packages" "there is no /usr/bin/python3"
fi

inside headers
cat >a.c <<'END'
#include <stdio.h>
#include <sys/sokcet.h>
#include <windows.h>
#if defined(X)
#include <nowhere.h>
#endif
#include "later.h"
#include <deep/own.h>
END
mkdir -p src/deep && : >src/deep/own.h
check "headers" tells 1 "./a.c:2: there is no header sys/sokcet.h here"
printf '#include <deep/next.h>\n' >c.c
check "a header in a folder of one's own may come next" tells 1 "./a.c:2:"
rm c.c
mkdir "$work/apart" && : >"$work/apart/apart.h"
printf '#include <apart.h>\n' >b.c
check "a header that no folder has" tells 1 "./a.c:2:" "./b.c:1: there is no header apart.h here"
printf 'CFLAGS = -I%s\n' "$work/apart" >Makefile
check "and one that a build names" tells 1 "./a.c:2:"
echo 'FetchContent_Declare(x)' >CMakeLists.txt
check "a build that fetches some" tells 0

inside go
cat >a.go <<'END'
package main

import (
    "encoding/jsn"
    "fmt"
    "example.com/app/new"
    "example.org/lib"
    "example.org/other"
)

func main() { fmt.Printline(lib.Thing, lib.Nothing) }
END
printf 'module example.com/app\n\nrequire example.org/lib v1.0.0\n' >go.mod
mkdir -p vendor/example.org/lib
printf 'package lib\n\nvar Thing = 1\n' >vendor/example.org/lib/lib.go
if [ -x /usr/local/go/bin/go ] || [ -x /usr/bin/go ]; then
    check "Go" tells 1 "./a.go:4: there is no package encoding/jsn here" \
        "./a.go:8: example.org/other is in no module that go.mod requires" \
        "./a.go:11: fmt has no Printline" "./a.go:11: example.org/lib has no Nothing"
    rm go.mod
    check "and without a go.mod" tells 1 "./a.go:4:" "./a.go:11: fmt has no Printline"
else
    skip "names of Go" "there is no go"
fi

inside java
printf 'import java.util.Lisst;\nimport java.util.Map.Entry;\nimport org.junit.Test;\n' >A.java
if [ -f "$(dirname "$(readlink -f /usr/bin/java)")/../lib/modules" ]; then
    check "Java" tells 1 "./A.java:1: java.util has no Lisst"
else
    skip "names of Java" "there is no JDK"
fi

cd "$work/slips" || exit 2
printf '{"id": 7, "language": "python", "code": "x = 1\\nimport reqeusts\\n"}\nbad\n' >in.jsonl
rm -f reqeusts.py
batch() {
    scan . --batch in.jsonl
    [ $? = 2 ] && grep -qF '{"id":7,"findings":[{"line":2,"name":"reqeusts"' out &&
        [ "$(wc -l <out)" = 1 ] && grep -q 'in.jsonl:2' err || { cat out err; return 1; }
}
[ ! -x /usr/bin/python3 ] || check "a batch, with a line that is none" batch
cd "$OLDPWD" || exit 2
report exists
