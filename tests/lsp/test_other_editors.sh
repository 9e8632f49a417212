#!/bin/sh
# test_other_editors.sh - Emacs and Kakoune with the blocks of docs/editors.md: each finds a weak
# line, takes its safe form, and does what a comment says.
. tests/shell.sh
. tests/lsp/blocks.sh

# in_terminal COMMAND: an editor with a terminal, the project and a home of its own.
in_terminal() {
    : >"$work/seen"
    HOME="$work/home" PATH="$work/bin:$PATH" TERM=xterm CERIUM_OUT="$work/seen" \
        CERIUM_FILE="$work/project/point.py" timeout 300 script -qfc "$1" /dev/null \
        >"$work/screen" 2>&1
}

# emacs_client NAME BLOCK: what tests/lsp/emacs.el sees with that client.
emacs_client() {
    if ! emacs --batch --eval "(progn (package-initialize) (require '$1))" >"$work/why" 2>&1; then
        skip "Emacs, $1" "$(tail -n 1 "$work/why")"
        return
    fi
    rm -rf "$work/home" "$work/project"
    make_project
    mkdir -p "$work/home/.emacs.d"
    echo '(setq native-comp-deferred-compilation nil)' >"$work/home/.emacs.d/early-init.el"
    block elisp "$2" >"$work/home/.emacs.d/init.el"
    # CERIUM_LSP_MODE: a folder with a newer lsp-mode.
    export CERIUM_CLIENT="$1"
    in_terminal "emacs -nw ${CERIUM_LSP_MODE:+-L $CERIUM_LSP_MODE} -l tests/lsp/emacs.el"
    for line in started 'weak.t.*hashlib.sha256(x)' 'fixed.t' 'edited.t' end; do
        check "Emacs, $1: $line" grep -q "^$line" "$work/seen"
    done
    if grep -q '^inline.none' "$work/seen"; then
        [ "$1" = eglot ] || skip "Emacs, $1: completions" "this version of lsp-mode has none"
    else
        check "Emacs, $1: a completion shown and taken" grep -q '^inline.t' "$work/seen"
    fi
    [ "$failed" = 0 ] || cat "$work/seen" "$work/log"
}

if ! script -qfc true /dev/null >"$work/why" 2>&1; then
    skip "Emacs and Kakoune" "$(tail -n 1 "$work/why")"
elif command -v emacs >/dev/null; then
    emacs_client lsp-mode 1
    emacs_client eglot 2
else
    skip "Emacs" "there is no emacs"
fi
report other_editors
