#!/bin/sh
# test_solve_route.sh - POST /v1/solve, which runs what clients send (check_solve_route.py).
. "$(dirname "$0")/check.sh"
check solve_route "variants over HTTP" "$@"
