# shell.sh - the whole harness for tests in shell: source it, check, report.
#
#   . tests/shell.sh
#   check "one is one" test 1 = 1
#   check_fails "a bad file is refused" "cannot open" ./cerium inspect /nowhere
#   skip "what needs a network" "there is none"
#   report name
#
# Tests run in the root of the source tree.  $work is an empty folder, removed at the end.  $O is
# the build folder, $CC and $TEST_CFLAGS are its compiler and flags.
passed=0 failed=0
work=$(mktemp -d) || exit 2
export XDG_STATE_HOME="$work/.state" # programs keep the user's state in the test's folder
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# fail_check NAME: shows the command's output.
fail_check() {
    failed=$((failed + 1))
    echo "  FAIL $1"
    sed 's/^/      /' "$work/.output" | head -n 40
}

# check NAME COMMAND...: passes when the command succeeds.
check() {
    check_name=$1
    shift
    if "$@" >"$work/.output" 2>&1; then passed=$((passed + 1)); else fail_check "$check_name"; fi
}

# check_fails NAME TEXT COMMAND...: passes when the command fails and its output has the text.
check_fails() {
    check_name=$1 check_text=$2
    shift 2
    if "$@" >"$work/.output" 2>&1; then
        fail_check "$check_name: succeeded"
    elif grep -qF -e "$check_text" "$work/.output"; then
        passed=$((passed + 1))
    else
        fail_check "$check_name: failed without \"$check_text\""
    fi
}

# status WANT COMMAND...: the command ends with that status.  Standard input is empty; its output
# is in $work/out and $work/err.
status() {
    want=$1
    shift
    "$@" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    [ "$got" = "$want" ] || { echo "status $got: $*"; cat "$work/out" "$work/err"; return 1; }
}

# refused STATUS TEXT COMMAND...: fails with one line on standard error and nothing on output.
refused() {
    refused_text=$2 want=$1
    shift 2
    status "$want" "$@" || return 1
    [ ! -s "$work/out" ] && [ "$(wc -l <"$work/err")" = 1 ] &&
        grep -qF -e "$refused_text" "$work/err" || { cat "$work/out" "$work/err"; return 1; }
}

# says TEXT [out|err]: the output of the last of these two has the text.
says() { grep -qF -e "$1" "$work/${2:-out}" || { cat "$work/${2:-out}"; return 1; }; }

# python_with PLACE MODULES PACKAGE...: $python is the interpreter of a virtual environment in
# PLACE, made once with packages from PyPI, that can import MODULES.  If that is impossible, fails,
# with the reason in $why.
python_with() {
    place=$1 python=$1/bin/python modules=$2
    shift 2
    $python -c "import $modules" 2>/dev/null && return
    { python3 -m venv "$place" && quiet_pip install "$@"; } >"$work/install" 2>&1
    why=$(tail -n 1 "$work/install")
    $python -c "import $modules" 2>/dev/null
}
quiet_pip() { $python -m pip --disable-pip-version-check --retries 1 --timeout 10 -q "$@"; }

# skip NAME REASON
skip() { echo "skipped: $1: $2"; }

report() {
    echo "$1: $passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}
