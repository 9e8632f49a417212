#!/bin/sh
# test_picker.sh - the same behind Envoy and the endpoint picker, with two files of examples/deploy;
# fake_kubernetes.py answers the picker's requests to Kubernetes.
. tests/cluster/start.sh
rig picker
