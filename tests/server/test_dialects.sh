#!/bin/sh
# test_dialects.sh - Messages, Ollama, llama.cpp's routes and steering (check_dialects.py).
. "$(dirname "$0")/check.sh"
check dialects "dialects of the server" "$@"
