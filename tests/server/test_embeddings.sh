#!/bin/sh
# test_embeddings.sh - vectors of texts (check_embeddings.py).
. "$(dirname "$0")/check.sh"
check embeddings "embeddings" "$@"
