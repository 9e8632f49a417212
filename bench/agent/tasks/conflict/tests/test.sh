#!/bin/bash
# The reward is 1 if checks.sh succeeds.  It is a program of its own: `set -e` has no effect
# within a condition.
mkdir -p /logs/verifier
reward=0
bash /tests/checks.sh >/logs/verifier/checks.txt 2>&1 && reward=1
echo "$reward" >/logs/verifier/reward.txt
