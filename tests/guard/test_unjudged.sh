#!/bin/sh
# test_unjudged.sh - nothing looks clean that was not looked at: a language without a grammar or
# without rules, a file that cannot be read.  The server's part is
# tests/server/check_unjudged.py.
. tests/shell.sh

blind=$O/cerium_blind
cat >"$work/shop.py" <<'END'
import os
def show(folder):
    os.system("ls -l " + folder)
END
cat >"$work/clean.py" <<'END'
def twice(n):
    return 2 * n
END
printf 'fn main() {\n    run("ls");\n}\n' >"$work/main.rs"
printf 'Some words.\n' >"$work/words.md"
cp "$work/main.rs" "$work/RUN.LUA"
diff_of() { printf -- '--- a/%s\n+++ b/%s\n@@ -0,0 +1,3 @@\n' "$1" "$1"; sed 's/^/+/' "$work/$1"; }
diff_of shop.py >"$work/diff"
check "files of a language without a grammar end with status 2" \
    status 2 "$blind" scan "$work/clean.py"
check "and the file is named" says "clean.py: not judged" err
check "with its language" says "no grammar for python" err
check "in a diff, too" status 2 "$blind" scan --answer "$work/diff"
check "with the line" says "diff:6: not judged" err
check "the rules' tests, too" status 2 "$blind" scan --test-rules
check "prose is read as ever" status 0 "$blind" scan "$work/words.md"
if ./cerium scan --test-rules 2>&1 | grep -q 'no grammar'; then
    skip "scan with grammars" "this build has none"
else
    check "with its grammar a clean file is clean" status 0 ./cerium scan "$work/clean.py"
    check "a weak one is weak" status 1 ./cerium scan "$work/shop.py"
fi
check "code without rules is not clean" status 2 ./cerium scan "$work/main.rs" "$work/RUN.LUA"
check "it says why" says "their languages have no rules: 2 of 2 files" err
check "beside other files it is said" status 0 ./cerium scan "$work/main.rs" "$work/words.md"
check "in words" says "their languages have no rules: 1 of 2 files" err
check "a file that is not there is trouble" status 2 ./cerium scan "$work/nowhere.c" \
    "$work/words.md"
check "and is named" says "nowhere.c: No such file" err

report unjudged
