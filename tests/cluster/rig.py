"""rig.py - three servers behind a balancer, as a recipe of examples/deploy has it, and what the
recipe promises: sessions stay with their server, and servers that go take nothing with them.

    unshare -mn python3 tests/cluster/rig.py haproxy|envoy|picker

Shares and counts are checked; times are printed, and checked by nobody."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "tests", "clients"), HERE]

import balancers  # noqa: E402
import network  # noqa: E402
from harness import CERIUM, HANG_S, MODEL, Report, wait_for  # noqa: E402
from load import Load, Session, SocketSession  # noqa: E402
from rawsocket import RawSocket  # noqa: E402

KEY = "key-of-the-cluster"
WHOLE = os.environ.get("CLUSTER") == "whole"
SESSIONS, TURNS = (64, 8) if WHOLE else (13, 5)  # in turn over three, a session moves each time
LAME_DUCK = 5


class Replica:
    """`cerium serve` on a host of its own, as docs/scale.md starts it."""

    def __init__(self, name, folder):
        self.name, self.folder, self.process = name, folder, None
        self.start()

    def start(self):
        keys = os.path.join(self.folder, "keys")
        with open(os.path.join(self.folder, self.name + ".log"), "ab") as log:
            self.process = subprocess.Popen(network.inside(self.name, [
                CERIUM, "serve", "-m", MODEL, "--host", "0.0.0.0", "--api-key-file", keys,
                "--replica", self.name, "--metrics-listen", "0.0.0.0:9383",
                "--lame-duck", str(LAME_DUCK), "--chat-form", "chatml", "--threads", "1",
                "--guard", "off",
                "--store", os.path.join(self.folder, self.name + ".db")]), stdout=log, stderr=log)
        self.wait()

    def wait(self):
        subprocess.run([CERIUM, "health", "--quiet", "--wait", str(int(HANG_S)),
                        "http://%s:9383" % self.name], check=True)

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        return self.process.wait(HANG_S)


def share(sessions):
    """Cached tokens of the prompts of all turns."""
    turns = [t for s in sessions for t in s.turns]
    return sum(t[1] for t in turns) / sum(t[2] for t in turns)


def converse(first, port, host="127.0.0.1"):
    """SESSIONS sessions, all their turns one after another; errors are raised."""
    sessions = [Session(first + i, port, KEY, host) for i in range(SESSIONS)]
    for _ in range(TURNS):
        for s in sessions:
            assert s.turn(), s.errors
    return sessions


def check_shares(report, balancer):
    direct = share(converse(1000, 8383, "cerium-1"))
    with report.check("a session stays with its server, and every server has some"):
        sessions = converse(2000, balancer.port)
        for s in sessions:  # a picker goes by prompts: a session is where most of it is
            assert len({t[0] for t in s.turns}) == 1 or balancer.name == "the picker", s.turns
        assert len({s.turns[0][0] for s in sessions}) == 3, [s.turns[0][0] for s in sessions]
    by_hash = share(sessions)
    print("  cached share of prompts: one server %.1f %%, %s %.1f %%" % (
        100 * direct, balancer.name, 100 * by_hash), flush=True)
    with report.check("the cached share is at least 98 % of one server's"):
        assert by_hash >= 0.98 * direct, (by_hash, direct)
    with balancer.in_turn(), report.check("which it would not be in turn"):
        in_turn = share(converse(3000, balancer.port))
        print("  cached share of prompts: in turn %.1f %%" % (100 * in_turn), flush=True)
        assert in_turn < 0.98 * direct, (in_turn, direct)


def check_sockets(report, balancer):
    with report.check("WebSockets of a session are on one server, and of all on several"):
        seen = {}
        for i in range(24):
            w = RawSocket(balancer.port, key=KEY, headers=["session-id: socket-%d" % (i % 8)])
            assert w.status == 101, w.headers
            name = [h for h in w.headers.lower().split("\r\n") if h.startswith("x-cerium-replica")]
            seen.setdefault(i % 8, set()).update(name)
            w.close()
        assert all(len(names) == 1 for names in seen.values()), seen
        assert len(set.union(*seen.values())) > 1, seen


def check_ways(report, balancer):
    """Other requests of clients get through."""
    session = Session(1, balancer.port, KEY)
    with report.check("models, counts and stored responses are served"):
        import http.client
        import json

        def ask(method, path, body=None):
            c = http.client.HTTPConnection("127.0.0.1", session.port, timeout=HANG_S)
            c.request(method, path, body and json.dumps(body),
                      {"Authorization": "Bearer " + KEY, "session-id": "ways"})
            answer = c.getresponse()
            data = json.loads(answer.read())
            c.close()
            assert answer.status == 200, (path, answer.status, data)
            return data
        ask("GET", "/v1/models")
        assert ask("POST", "/tokenize", {"content": "a b"})["tokens"]
        ask("POST", "/infill", {"input_prefix": "def f(", "input_suffix": "", "n_predict": 2})
        stored = ask("POST", "/v1/responses", {"model": "cerium-line", "input": "x",
                                               "max_output_tokens": 2})
        assert ask("GET", "/v1/responses/" + stored["id"])["id"] == stored["id"]


def more(load, n):
    """Until n more turns were answered."""
    goal = load.n_turns() + n
    wait_for(lambda: load.n_turns() >= goal)


def errors(load):
    return [e for s in load.sessions for e in (s.errors if hasattr(s, "errors") else s.lost)]


def check_leaving(report, balancer, replicas):
    sessions = [Session(100 + i, balancer.port, KEY) for i in range(8)]
    sessions += [SocketSession(200 + i, balancer.port, KEY) for i in range(4)]
    with Load(sessions) as load:
        more(load, 30)
        with report.check("SIGTERM of one server under load: no error, no lost turn"):
            assert replicas[0].end() == 0
            more(load, 30)
            assert not errors(load), errors(load)[:3]
        replicas[0].start()
        with report.check("a rolling restart of all: no error, no lost turn"):
            for replica in replicas:
                assert replica.end() == 0
                replica.start()
                balancer.wait(replica.name)
            more(load, 30)
            assert not errors(load), errors(load)[:3]
    moved = sum(s.moves for s in sessions if isinstance(s, SocketSession))
    print("  %d turns, %d WebSockets moved" % (load.n_turns(), moved), flush=True)
    with report.check("WebSockets did move"):
        assert moved > 0


def check_killed(report, balancer, replicas):
    sessions = [Session(300 + i, balancer.port, KEY) for i in range(12)]
    with Load(sessions) as load:
        more(load, 60)
        last = [s.turns[-1][0] for s in sessions if s.turns]
        victim = max(replicas, key=lambda r: last.count(r.name))
        theirs = [s for s in sessions if s.turns and s.turns[-1][0] == victim.name]
        os.kill(victim.process.pid, signal.SIGKILL)
        victim.process.wait()
        killed = time.monotonic()
        after = {s: len(s.turns) for s in sessions}
        with report.check("kill -9: every session goes on, those that moved, too"):
            wait_for(lambda: all(len(s.turns) >= after[s] + 3 for s in sessions))
            assert {s.turns[-1][0] for s in theirs} and not any(
                s.turns[-1][0] == victim.name for s in sessions)
        with report.check("and only answers that ran there were lost"):
            for s in sessions:
                for began, _, what in s.errors:
                    assert s in theirs and began <= killed, (s.name, began - killed, what)
                assert len(s.errors) <= 1, s.errors
        back = max((ended for s in theirs for _, ended, _ in s.errors), default=killed) - killed
        print("  kill -9: %d of %d answers lost, the last after %.2f s" % (
            len(errors(load)), len(theirs), back), flush=True)
    victim.start()
    balancer.wait(victim.name)


def check_parted(report, balancer, replicas):
    victim = replicas[1]
    network.link(victim.name, False)
    with report.check("a server that cannot be reached: the others serve"):
        balancer.wait_gone(victim.name)
        sessions = [Session(400 + i, balancer.port, KEY) for i in range(9)]
        for s in sessions:
            assert s.turn(), s.errors
            assert s.turns[0][0] != victim.name
    network.link(victim.name, True)
    with report.check("and it is back when it can be"):
        balancer.wait(victim.name)


def main():
    report = Report("cluster " + sys.argv[1])
    folder = tempfile.mkdtemp(prefix="cerium-cluster-")
    network.connect()
    with open(os.path.join(folder, "keys"), "w") as f:
        f.write(KEY + "\n")
    replicas = []
    try:
        replicas += [Replica(name, folder) for name in network.HOSTS]
        with balancers.KINDS[sys.argv[1]](folder) as balancer:
            for r in replicas:
                balancer.wait(r.name)
            check_shares(report, balancer)
            check_sockets(report, balancer)
            check_ways(report, balancer)
            check_leaving(report, balancer, replicas)
            check_killed(report, balancer, replicas)
            check_parted(report, balancer, replicas)
    except Exception as error:  # the rig itself
        report.fail("the rig", repr(error))
    finally:
        for r in replicas:
            with contextlib.suppress(OSError):
                r.process.kill()
                r.process.wait()
        if report.failed:
            for r in replicas:
                with open(os.path.join(folder, r.name + ".log"), errors="replace") as f:
                    print("      " + "      ".join(f.readlines()[-8:]))
        shutil.rmtree(folder, ignore_errors=True)
    report.end()


main()
