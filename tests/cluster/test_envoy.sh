#!/bin/sh
# test_envoy.sh - the same behind Envoy with examples/deploy/envoy.yaml.
. tests/cluster/start.sh
rig envoy
