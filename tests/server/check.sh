# check.sh - sourced by the tests of this folder: `check NAME WHAT "$@"` runs check_NAME.py, or says
# that WHAT was skipped.
check() {
    name=$1 what=$2
    shift 2
    command -v python3 >/dev/null || {
        echo "skipped: $what: there is no python3"
        echo "$name: 0 passed, 0 failed"
        exit 0
    }
    if [ "$O" ]; then CERIUM=$PWD/$O/cerium; else CERIUM=${CERIUM:-$PWD/cerium}; fi
    CLIENTS=${CLIENTS:-$PWD/build/clients}
    mkdir -p "$CLIENTS"
    case $BUILD in asan | tsan) CLIENT_PATIENCE=${CLIENT_PATIENCE:-6} ;; esac
    export CERIUM CLIENTS CLIENT_PATIENCE="${CLIENT_PATIENCE:-1}"
    exec python3 "$(dirname "$0")/check_$name.py" "$@"
}
