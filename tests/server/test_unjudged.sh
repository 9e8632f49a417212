#!/bin/sh
# test_unjudged.sh - a server whose watchdog lacks its grammars (check_unjudged.py).
O=${O:-build/release}
export CERIUM_BLIND="$PWD/$O/cerium_blind"
. "$(dirname "$0")/check.sh"
check unjudged "a watchdog without grammars" "$@"
