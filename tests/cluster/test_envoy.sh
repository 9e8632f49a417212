#!/bin/sh
# test_envoy.sh - the same behind Envoy as examples/deploy/envoy.yaml has it.
. tests/cluster/start.sh
rig envoy
