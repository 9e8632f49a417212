# blocks.sh - blocks of docs/editors.md, for real editors; sourced after tests/shell.sh.

# block LANGUAGE N: the N-th block of that language.
block() {
    awk -v lang="\`\`\`$1" -v want="$2" '$0 == lang { n++; on = n == want; next }
        /^```/ { on = 0 } on' docs/editors.md
}

# make_project: a file in $work/project, and `cerium` on PATH as the blocks want it.  Its edits by
# instruction are $work/answer; what it says goes to $work/log.
make_project() {
    mkdir -p "$work/project/.git" "$work/bin" "$work/home"
    printf 'import hashlib\n' >"$work/project/point.py"
    cat >"$work/answer" <<'END_ANSWER'
```python
import sys
import hashlib

def f(x):
    h = hashlib.sha256(x)
    return h
```
END_ANSWER
    printf '#!/bin/sh\nexec %s "$@" --replay %s 2>>%s\n' "$PWD/cerium" "$work/answer" "$work/log" \
        >"$work/bin/cerium"
    chmod +x "$work/bin/cerium"
}
