#!/bin/sh
# test_service.sh - examples/cerium.service is a unit that systemd accepts, and a hardened one.
. tests/shell.sh

if ! systemd-analyze --version >/dev/null 2>&1; then
    skip "the systemd unit" "systemd-analyze is not installed"
    report service
    exit
fi

# The program and its man page need not be installed for this.
unit=$work/cerium.service
sed "s|/usr/local/bin/cerium|$(command -v true)|; /^Documentation=/d" examples/cerium.service \
    >"$unit"
analyze() { systemd-analyze "$@" "$unit"; }
quiet() { analyze verify && ! analyze verify 2>&1 | grep .; }
check "systemd has no complaint about the unit" quiet
check "its exposure is at most 1.5 of 10" analyze security --offline=true --threshold=15
sed -i '/^ProtectSystem=/d; /^CapabilityBoundingSet=/d; /^SystemCallFilter=/d' "$unit"
check_fails "a lax one is found out" "exposure" analyze security --offline=true --threshold=15
echo 'Restart=sometimes' >>"$unit"
quiet_fails() { ! quiet; }
check "a faulty one is detected" quiet_fails
program() { grep -q "^ExecStart=/usr/local/bin/cerium serve " examples/cerium.service; }
check "it starts the server where make install puts it" program
report service
