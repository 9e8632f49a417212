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
    rm -rf "${work:?}/home" "${work:?}/project"
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

# Kakoune: commands go to its session, and it writes what it has to files.
tell() { printf 'eval -client client0 %%{ %s }\n' "$1" | kak -p cerium; }

# until_says WORDS PATTERN: WORDS, expanded by Kakoune while all is selected, are asked for until
# they match.
until_says() {
    for _ in $(seq 300); do
        rm -f "$work/said"
        tell "eval -draft %{ exec '%'; echo -to-file $work/said -- $1 }" 2>>"$work/log"
        sleep 0.1
        grep -q -- "$2" "$work/said" 2>/dev/null && return 0
    done
    cat "$work/said" "$work/log"
    return 1
}

kakoune() {
    rm -rf "${work:?}/home" "${work:?}/project"
    make_project
    mkdir -p "$work/home/.config/kak" "$work/run"
    chmod 700 "$work/run"
    block kak 1 >"$work/home/.config/kak/kakrc"
    export XDG_RUNTIME_DIR="$work/run"
    # Its keys come from here: none, until it ends.
    mkfifo "$work/keys"
    in_terminal "kak -s cerium $work/project/point.py" <"$work/keys" &
    editor=$!
    exec 9>"$work/keys"
    check "Kakoune starts" until_says '%val{buffile}' point.py
    tell "exec 'geo<ret>def f(x):<ret>    h = hashlib.md5(x)<ret>return h<esc>'"
    check "Kakoune: a weak line" until_says '%opt{lsp_diagnostic_warning_count}' '^1$'
    tell "exec '%smd5<ret>'; lsp-code-action 'Write it safely.*'"
    check "Kakoune: its safe form" until_says '%val{selection}' 'h = hashlib.sha256(x)'
    tell "exec 'ggO# cerium: add<esc>'"
    check "Kakoune: the weak line is gone" until_says '%opt{lsp_diagnostic_warning_count}' '^0$'
    tell "lsp-code-action 'Do what the comment says'"
    check "Kakoune: the comment is done" until_says '%val{selection}' '^import sys$'
    check "Kakoune: and gone" sh -c "! grep cerium: $work/said"
    tell 'kill!'
    exec 9>&-
    wait "$editor"
}

if ! script -qfc true /dev/null >"$work/why" 2>&1; then
    skip "Emacs and Kakoune" "$(tail -n 1 "$work/why")"
    report other_editors
    exit
fi
if command -v emacs >/dev/null; then
    emacs_client lsp-mode 1
    emacs_client eglot 2
else
    skip "Emacs" "there is no emacs"
fi
PATH="$PATH:$PWD/build/kak-lsp/bin:$HOME/.cargo/bin"
if ! command -v kak >/dev/null; then
    skip "Kakoune" "there is no kak"
elif ! command -v kak-lsp >/dev/null; then
    skip "Kakoune" "there is no kak-lsp: cargo install --root build/kak-lsp kak-lsp"
else
    kakoune
fi
report other_editors
