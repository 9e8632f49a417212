#!/bin/sh
# test_completion.sh - what shells complete after `cerium`: every command and option that --help
# has, words of lists, files; in the shells themselves, where they are installed.
. tests/shell.sh

for shell in bash zsh fish; do
    check "a script for $shell" status 0 ./cerium --completion $shell
    cp "$work/out" "$work/$shell"
done
check "another shell" refused 2 "no completion for 'csh'" ./cerium --completion csh
check "no shell" refused 2 "there is no command" ./cerium --completion

commands=$(./cerium --help | sed -n 's/^  \([a-z]*\)  *.*/\1/p')
check "help lists commands" test "$(echo "$commands" | wc -l)" -gt 10

# offers SHELL LINE WORD: what stands in LINE is completed to WORD, among others.
bash_offers() {
    bash -c '. "$0"; COMP_WORDS=($1); [ "${1% }" = "$1" ] || COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); compopt() { :; }
        _cerium cerium "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf "%s\\n" "${COMPREPLY[@]}"' "$work/bash" "$1"
}
fish_offers() { fish --no-config -c "source $work/fish; complete -C '$1'" | cut -f 1; }
offers() { "$1_offers" "$2" | grep -qxF -e "$3" || { "$1_offers" "$2"; return 1; }; }
keeps() { ! "$1_offers" "$2" | grep -xF -e "$3"; }

for shell in bash fish; do
    command -v $shell >/dev/null || { skip "completion in $shell" "it is not installed"; continue; }
    for command in $commands; do
        check "$shell offers $command" offers $shell 'cerium ' "$command"
    done
    check "$shell narrows" keeps $shell 'cerium se' run
    for command in serve run health scan 'wafer plan' 'wafer simulate' keys; do
        ./cerium $command --help >"$work/help"
        for option in $(sed -n 's/^  \(-., \|    \)\(--[a-z0-9-]*\).*/\2/p' "$work/help"); do
            check "$shell: $command $option" offers $shell "cerium $command --" "$option"
        done
    done
    check "$shell: an option of another command" keeps $shell 'cerium health --' --port
    check "$shell: words of a list" offers $shell 'cerium serve --guard-late ' hold
    check "$shell: only those" keeps $shell 'cerium serve --guard-late ' README.md
    check "$shell: a file" offers $shell 'cerium serve --config READ' README.md
    check "$shell: a folder" offers $shell 'cerium serve --models-dir exampl' \
        "$([ $shell = fish ] && echo examples/ || echo examples)"
    check "$shell: no file for a number" keeps $shell 'cerium serve --port ' README.md
    check "$shell: a file to work on" offers $shell 'cerium scan READ' README.md
done

if command -v zsh >/dev/null; then
    check "zsh reads its script" zsh -fn "$work/zsh"
    loads() {
        zsh -fc "autoload -U compinit && compinit -u -d $work/dump && source $work/zsh &&
            whence _cerium"
    }
    check "and takes it" loads
    for command in $commands; do
        check "zsh offers $command" grep -q "^        '$command:" "$work/zsh"
    done
else
    skip "completion in zsh" "it is not installed"
fi
report completion
