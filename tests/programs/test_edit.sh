#!/bin/sh
# test_edit.sh - `cerium edit` with recorded answers: what is shown, what is written and what not.
. tests/shell.sh

C=$PWD/cerium
cd "$work" || exit 2
run() { eval "$1"; } # the words of a check as the shell reads them

file() {
    printf '%s\n' 'int add(int a, int b)' '{' '    return a - b;' '}' '' \
        'int main(void)' '{' '    return add(1, 2);' '}' > a.c
}
cat > block <<'END'
<<<<<<< SEARCH
    return a - b;
=======
    return a + b;
>>>>>>> REPLACE
END
{ echo '```c'; file; sed 's/a - b/a + b/' a.c; echo '```'; } > whole
{ echo '```c'; sed 's/^\(.*\)$/\1 \/\/ x/' a.c; echo '```'; } > all
edit() { "$C" edit --quiet "$@" > out 2> err; }
unchanged() { cmp -s a.c before; }

patches() { cp a.c p.c && patch -s p.c out && grep -q "a + b" p.c; }
refused() { # TEXT ARGUMENT...: one line with the text, and nothing is changed
    text=$1
    shift
    ! edit "$@" && unchanged && [ "$(wc -l < err)" = 1 ] && grep -q -e "$text" err
}
json() {
    for text in '"hunks": 1' '"lines_added": 1' '"applied": false' '+    return a + b;\n'; do
        grep -qF -e "$text" out || return 1
    done
}
usage() { "$C" edit "$@" > out 2> err; [ $? = 2 ]; }
whole_of() { { echo '```'; cat; echo '```'; } }

file
cp a.c before
chmod 640 a.c
check 'blocks are shown' run 'edit a.c "fix it" --form blocks --replay block && unchanged'
check 'the diff is what patch takes' patches
check 'a whole file is shown' run 'edit a.c "fix it" --replay whole && unchanged && patches'
check 'standard input says what to do' run 'echo "fix it" | edit a.c --replay whole'
check 'JSON' run 'edit a.c "fix it" --replay whole --json && json'
check 'a model without a chat form says so' refused "no chat form" a.c "fix it"
sed 's/a - b/a * b/' block > bad
check 'what is not in the file is refused' \
    refused "not in the file" a.c "fix it" --apply --form blocks --replay bad
cat a.c before > two.c
check 'what fits twice is refused' \
    refused "fits 2 places" two.c "fix it" --apply --form blocks --replay block
whole_of < a.c > same
check 'an answer that changes nothing is refused' \
    refused "changes nothing" a.c "fix it" --replay same
check 'an answer that was cut off is refused' \
    refused "cut off" a.c "fix it" --apply --replay whole -n 5
check 'too many lines are refused' \
    refused "max-lines 3" a.c "fix it" --apply --replay all --max-lines 3
seq 120 > n.txt
sed 's/0$/0 new/' n.txt | whole_of > places
check 'too many places are refused' \
    refused "max-hunks 8" n.txt "mark the tens" -n 800 --replay places
check 'no file' usage
check 'no such form' usage a.c x --form y
printf 'a\0b' > bin
check 'what is no text is refused' refused "NUL" bin x --replay whole
check 'a folder is refused' refused "not a regular file" . x --replay whole

check 'apply writes' run 'edit a.c "fix it" --apply --replay whole && grep -q "a + b" a.c'
check 'apply keeps permissions' run '[ "$(stat -c %a a.c)" = 640 ]'
file
mkdir -p sub
ln -s ../a.c sub/link.c
check 'apply follows links' \
    run 'edit sub/link.c "fix it" --apply --form blocks --replay block && grep -q "a + b" a.c'
check 'a link stays a link' test -L sub/link.c
file
ln a.c hard.c
check 'hard links are refused' refused "hard links" a.c "fix it" --apply --replay whole
rm -f hard.c
sed 's/$/\r/' before > cr.c
check 'CR LF is no hindrance' \
    run 'edit cr.c "fix it" --apply --form blocks --replay block && grep -q "a + b" cr.c'
check 'CR LF stays' run '[ "$(grep -c "$(printf "\r")" cr.c)" = "$(wc -l < before)" ]'
check 'CR LF is in the diff' run 'cp before cr.c && sed -i "s/\$/\r/" cr.c && cp cr.c p.c &&
    edit cr.c "fix it" --form blocks --replay block && patch --binary -s p.c out &&
    grep -q "a + b;$(printf "\\r")" p.c'
mark=$(printf '\357\273\277')
{ printf '%s' "$mark"; cat before; } > mark.c
cp mark.c p.c
check 'a byte order mark stays' run 'edit mark.c "fix it" --apply --replay whole &&
    grep -q "^${mark}int add" mark.c && grep -q "a + b" mark.c &&
    [ "$(grep -c "$mark" mark.c)" = 1 ]'
check 'a byte order mark is in the diff' run 'patch -s p.c out && cmp -s p.c mark.c'
printf '%s' "$(cat before)" > end.c
check 'no line feed at the end stays none' run 'edit end.c "fix it" --apply --replay whole &&
    grep -q "a + b" end.c && [ "$(tail -c 1 end.c)" = "}" ]'
chmod 440 a.c
check 'what is read-only is refused' refused "read-only" a.c "fix it" --apply --replay whole
check 'what is read-only can be shown' run 'edit a.c "fix it" --replay whole && unchanged'
check 'before it is computed' run '! edit a.c "fix it" --apply && grep -q "read-only" err'
chmod 640 a.c
# The file was read when the answer is asked for.
changes_meanwhile() {
    mkfifo pipe
    { edit a.c "fix it" --apply --replay pipe; echo $? > rc; } &
    exec 3> pipe
    echo "// new" >> a.c
    cat whole >&3
    exec 3>&-
    wait
    [ "$(cat rc)" = 1 ] && grep -q "changed while" err && grep -q "// new" a.c
}
check 'a file that changes meanwhile is kept' changes_meanwhile
check 'nothing is left behind' run '! ls -a | grep -q cerium-'
report edit
