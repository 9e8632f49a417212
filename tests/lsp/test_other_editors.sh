#!/bin/sh
# test_other_editors.sh - Emacs, Vim, Helix, Kakoune and Kate with the blocks of docs/editors.md:
# each finds a weak line and takes its safe form; Emacs and Kakoune do what a comment says.
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

vim_with_ale() {
    rm -rf "${work:?}/home" "${work:?}/project"
    make_project
    block vim 1 >"$work/vimrc"
    in_terminal "vim -Nu $work/vimrc -i NONE -S tests/lsp/vim.vim"
    for line in started 'weak.1.*hashlib.sha256(x)' 'fixed.1' end; do
        check "Vim: $line" grep -q "^$line" "$work/seen"
    done
    [ "$failed" = 0 ] || cat "$work/seen" "$work/log"
}

# Helix: its keys come from here, again until the file has the safe form.
helix() {
    rm -rf "${work:?}/home" "${work:?}/project"
    make_project
    mkdir -p "$work/home/.config/helix"
    block toml 1 >"$work/home/.config/helix/languages.toml"
    printf '\ndef f(x):\n    h = hashlib.md5(x)\n    return h\n' >>"$work/project/point.py"
    printf '#!/bin/sh\n%s "$@" 2>>%s | tee -a %s\n' "$PWD/cerium" "$work/log" "$work/talk" \
        >"$work/bin/cerium"
    mkfifo "$work/keys"
    in_terminal "hx $work/project/point.py:4:10" <"$work/keys" &
    editor=$!
    exec 9>"$work/keys"
    for _ in $(seq 600); do
        grep -q '"code"' "$work/talk" 2>/dev/null && break
        sleep 0.1
    done
    for _ in $(seq 60); do # the first of the actions is the safe form
        for keys in '\033' ':4\r' 'wwww' ' a' '\r' '\033' ':w\r'; do
            printf "$keys" >&9
            sleep 0.3
        done
        grep -q sha256 "$work/project/point.py" && break
    done
    printf '\033' >&9
    sleep 0.3
    printf ':q!\r' >&9
    exec 9>&-
    wait "$editor"
    check "Helix: a weak line is reported" grep -q '"code":"py-crypto-hash"' "$work/talk"
    check "Helix: its safe form" grep -q '^    h = hashlib.sha256(x)$' "$work/project/point.py"
    rm -f "$work/keys" "$work/talk"
}

# Kate runs on a screen in memory: tests/lsp/kate.sh.
kate_editor() {
    rm -rf "${work:?}/home" "${work:?}/project"
    make_project
    mkdir -p "$work/home/.config/kate/lspclient" "$work/home/.local/share/kxmlgui5/lspclient" \
        "$work/home/.local/share/kate" "$work/run"
    chmod 700 "$work/run"
    printf '\ndef f(x):\n    é = 1\n    h = hashlib.md5(x)\n    return h\n' \
        >>"$work/project/point.py"
    # What the server says is seen by the test, too.
    printf '#!/bin/sh\n%s "$@" 2>>%s | tee -a %s\n' "$PWD/cerium" "$work/log" "$work/talk" \
        >"$work/bin/cerium"
    block json 1 >"$work/home/.config/kate/lspclient/settings.json"
    printf '[Kate Plugins]\nlspclientplugin=true\n' \
        >"$work/home/.local/share/kate/anonymous.katesession"
    # The answer to its question.
    printf '[lspclient]\nAllowedServerCommandLines=%s lsp\n' "$work/bin/cerium" \
        >"$work/home/.config/katerc"
    cat >"$work/home/.local/share/kxmlgui5/lspclient/ui.rc" <<'END_RC'
<!DOCTYPE gui><gui name="lspclient" library="lspclient" version="1000">
<MenuBar><Menu name="LSPClient Menubar"><Action name="lspclient_quick_fix"/></Menu></MenuBar>
<ActionProperties scheme="Default"><Action name="lspclient_quick_fix" shortcut="F9"/>
</ActionProperties></gui>
END_RC
    for _ in 1 2 3; do # a screen may be taken by another program that begins
        HOME="$work/home" XDG_RUNTIME_DIR="$work/run" PATH="$work/bin:$PATH" \
            CERIUM_FILE="$work/project/point.py" CERIUM_TALK="$work/talk" timeout 300 \
            dbus-run-session -- xvfb-run -a sh tests/lsp/kate.sh >"$work/kate" 2>&1
        grep -q 'could not connect to display' "$work/kate" || break
    done
    check "Kate: the server is its own" grep -q '"serverInfo"' "$work/talk"
    check "Kate: a weak line is reported" grep -q '"code":"py-crypto-hash"' "$work/talk"
    check "Kate: its safe form" grep -q '^    h = hashlib.sha256(x)$' "$work/project/point.py"
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
    skip "Emacs, Vim and Kakoune" "$(tail -n 1 "$work/why")"
    report other_editors
    exit
fi
if command -v emacs >/dev/null; then
    emacs_client lsp-mode 1
    emacs_client eglot 2
else
    skip "Emacs" "there is no emacs"
fi
if ! command -v vim >/dev/null; then
    skip "Vim" "there is no vim"
elif ! vim -Nu NONE -i NONE -es -c 'packadd ale' -c 'if !exists("g:loaded_ale") | cquit | endif' \
    -c 'qa!' </dev/null >"$work/why" 2>&1; then
    skip "Vim" "there is no ALE: Debian's vim-ale"
else
    vim_with_ale
fi
if command -v hx >/dev/null; then
    helix
else
    skip "Helix" "there is no hx"
fi
for program in kate xdotool xvfb-run dbus-run-session; do
    command -v $program >/dev/null || { skip "Kate" "there is no $program"; program=; break; }
done
[ "$program" ] && kate_editor
PATH="$PATH:$PWD/build/kak-lsp/bin:$HOME/.cargo/bin"
if ! command -v kak >/dev/null; then
    skip "Kakoune" "there is no kak"
elif ! command -v kak-lsp >/dev/null; then
    skip "Kakoune" "there is no kak-lsp: cargo install --root build/kak-lsp kak-lsp"
else
    kakoune
fi
report other_editors
