#!/bin/sh
# test_haproxy.sh - three servers behind HAProxy as examples/deploy/haproxy.cfg has it (rig.py),
# each in a network of its own: sessions stay, and servers that go take nothing with them.
. tests/cluster/start.sh
rig haproxy
