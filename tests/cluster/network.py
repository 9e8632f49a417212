"""network.py - three hosts and one for the balancer on one machine: namespaces on a bridge.

To be run by `unshare -mn`: mounts and links end with the process."""

import os
import subprocess
import tempfile

HOSTS = {"cerium-1": "10.77.0.11", "cerium-2": "10.77.0.12", "cerium-3": "10.77.0.13"}


def sh(command):
    subprocess.run(command, shell=True, check=True, capture_output=True, text=True)


def connect():
    """The names of HOSTS lead to namespaces of the same names; this process is the balancer's."""
    sh("mount -t tmpfs tmpfs /run")
    with tempfile.NamedTemporaryFile("w", delete=False) as f:
        f.write("127.0.0.1 localhost\n" + "".join("%s %s\n" % (a, n) for n, a in HOSTS.items()))
    os.chmod(f.name, 0o644)
    sh("mount --bind %s /etc/hosts" % f.name)
    os.unlink(f.name)
    sh("ip link set lo up && ip link add br0 type bridge && ip addr add 10.77.0.1/24 dev br0"
       " && ip link set br0 up")
    for i, (name, address) in enumerate(HOSTS.items()):
        sh("ip netns add {0} && ip link add v{1} type veth peer name eth0 netns {0}"
           " && ip link set v{1} master br0 up && ip -n {0} link set lo up"
           " && ip -n {0} addr add {2}/24 dev eth0 && ip -n {0} link set eth0 up".format(
               name, i, address))


def inside(name, command):
    """The command, to be run on that host."""
    return ["ip", "netns", "exec", name, *command]


def link(name, up):
    """Pull the cable of a host, or plug it in again."""
    sh("ip link set v%d %s" % (list(HOSTS).index(name), "up" if up else "down"))


SLOW_BITS = 512000  # a second
# A short queue, each way: overflow is dropped.  Random delay and loss need a module.
FAR = "netem rate %dbit delay 40ms 10ms loss 1%% limit 40" % SLOW_BITS
SLOW = "tbf rate %dbit burst 4000 limit 40000" % SLOW_BITS


def slow(name):
    """A host at the end of a slow link.  Returns whether packets are also delayed and lost at
    random."""
    def both_ways(how):
        for end in ("dev v%d" % list(HOSTS).index(name), "dev eth0"):
            at = "" if "eth0" not in end else "ip netns exec %s " % name
            sh("%stc qdisc replace %s root %s" % (at, end, how))
    try:
        both_ways(FAR)
        return True
    except subprocess.CalledProcessError:
        both_ways(SLOW)
        return False


def fast(name):
    sh("tc qdisc del dev v%d root" % list(HOSTS).index(name))
    sh("ip netns exec %s tc qdisc del dev eth0 root" % name)
