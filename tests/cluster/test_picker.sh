#!/bin/sh
# test_picker.sh - the same behind Envoy and the endpoint picker, by two files of examples/deploy;
# what the picker asks of Kubernetes, fake_kubernetes.py answers.
. tests/cluster/start.sh
rig picker
