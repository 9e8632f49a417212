#!/bin/sh
# test_haproxy.sh - three servers behind HAProxy with examples/deploy/haproxy.cfg (rig.py),
# each in a network of its own: sessions stay, and no work is lost when a server leaves.
. tests/cluster/start.sh
rig haproxy
