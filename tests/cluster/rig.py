"""rig.py - three servers behind a balancer, by a recipe of examples/deploy, and the
promises of the recipe: sessions stay with their server, and no work is lost when a server leaves.

    unshare -mn python3 tests/cluster/rig.py haproxy|envoy|picker [CHECK]...

CHECK is one of CHECKS below.  CLUSTER=whole has more sessions, and waits for a host that is down.

Shares and counts are checked; times are printed, but not checked."""

import contextlib
import http.client
import json
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
BODY_BYTES = 200000


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


def check_shares(report, balancer, _):
    direct = share(converse(1000, 8383, "cerium-1"))
    with report.check("a session stays with its server, and every server has some"):
        sessions = converse(2000, balancer.port)
        for s in sessions:  # a picker uses prompts: a session goes where most of it is cached
            assert len({t[0] for t in s.turns}) == 1 or balancer.name == "the picker", s.turns
        assert len({s.turns[0][0] for s in sessions}) == 3, [s.turns[0][0] for s in sessions]
    by_hash = share(sessions)
    print("  cached share of prompts: one server %.1f %%, %s %.1f %%" % (
        100 * direct, balancer.name, 100 * by_hash), flush=True)
    with report.check("the cached share is at least 98 % of one server's"):
        assert by_hash >= 0.98 * direct, (by_hash, direct)
    with balancer.in_turn(), report.check("which it would not be with round robin"):
        in_turn = share(converse(3000, balancer.port))
        print("  cached share of prompts: in turn %.1f %%" % (100 * in_turn), flush=True)
        assert in_turn < 0.98 * direct, (in_turn, direct)


def check_sockets(report, balancer, _):
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


def ask(port, method, path, body=None, session="ways"):
    return ask_of(port, method, path, body, session)[0]


def ask_of(port, method, path, body, session):
    """The answer, and the name of the server that gave it."""
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG_S)
    c.request(method, path, body, {"Authorization": "Bearer " + KEY, "session-id": session})
    answer = c.getresponse()
    data = json.loads(answer.read())
    c.close()
    assert answer.status == 200, (path, answer.status, data)
    return data, answer.headers["x-cerium-replica"]


def check_ways(report, balancer, _):
    """Other requests of clients reach a server."""
    def post(path, body):
        return ask(balancer.port, "POST", path, json.dumps(body))
    with report.check("models, counts and stored responses are served"):
        ask(balancer.port, "GET", "/v1/models")
        assert post("/tokenize", {"content": "a b"})["tokens"]
        post("/infill", {"input_prefix": "def f(", "input_suffix": "", "n_predict": 2})
        stored = post("/v1/responses", {"model": "cerium-line", "input": "x",
                                        "max_output_tokens": 2})
        assert ask(balancer.port, "GET", "/v1/responses/" + stored["id"])["id"] == stored["id"]


def some(balancer, first, n, n_sockets):
    return [Session(first + i, balancer.port, KEY) for i in range(n)] + [
        SocketSession(first + n + i, balancer.port, KEY) for i in range(n_sockets)]


def more(load, n):
    """Waits until n more turns were answered."""
    goal = load.n_turns() + n
    wait_for(lambda: load.n_turns() >= goal)


def errors(load):
    return [e for s in load.sessions for e in s.errors]


def check_leaving(report, balancer, replicas):
    sessions = some(balancer, 100, 8, 4)
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
    sessions = some(balancer, 300, 12, 0)
    with Load(sessions) as load:
        more(load, 60)
        last = [s.turns[-1][0] for s in sessions if s.turns]
        victim = max(replicas, key=lambda r: last.count(r.name))
        theirs = [s for s in sessions if s.turns and s.turns[-1][0] == victim.name]
        os.kill(victim.process.pid, signal.SIGKILL)
        victim.process.wait()
        killed = time.monotonic()
        after = {s: len(s.turns) for s in sessions}
        with report.check("kill -9: every session continues, also those that moved"):
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


def each(sessions, n):
    """Waits until each of them was answered n more times."""
    goals = [(s, s.n_turns() + n) for s in sessions]
    wait_for(lambda: all(s.n_turns() >= goal for s, goal in goals))


def on(victim, sessions):
    """Sessions that were last on that server."""
    return [s for s in sessions if s.last_replica() == victim.name]


def session_at(port, victim):
    """A session that goes there by its name, whatever a picker would do with prompts."""
    for i in range(100):
        if ask_of(port, "GET", "/v1/models", None, "far-%d" % i)[1] == victim.name:
            return "far-%d" % i
    raise AssertionError("no session goes to " + victim.name)


def send_much(port, session):
    """A body that fills a slow link for seconds; the seconds."""
    body = json.dumps({"content": "a b " * (BODY_BYTES // 4)})
    began = time.monotonic()
    ask(port, "POST", "/tokenize", body, session)
    return time.monotonic() - began


def sent_there(balancer, theirs, sessions):
    """Sessions that may wait for a server that is down by now.  A hash sends no others there; a
    picker may send any, until it knows: then those that have waited since before that."""
    if balancer.name != "the picker":
        return theirs
    now = time.monotonic()
    time.sleep(0.5)  # turns begun just before, elsewhere, have ended
    return theirs + [s for s in sessions if s not in theirs and isinstance(s, Session) and
                     (s.in_flight or now) < now]


def check_slow(report, balancer, replicas):
    victim = replicas[2]
    sessions = some(balancer, 500, 12, 4)
    with Load(sessions) as load:
        each(sessions, 1)
        theirs = on(victim, sessions)
        others = [s for s in sessions if s not in theirs]
        far = session_at(balancer.port, victim)
        if not network.slow(victim.name):
            report.skip("packets that are late or lost", "the kernel has no netem")
        with report.check("a slow link: no error, no lost turn"):
            assert theirs, "no session is there"
            before = {s: s.n_turns() for s in theirs}
            took = send_much(balancer.port, far)
            assert took > 4 * BODY_BYTES / network.SLOW_BITS, "it is not slow: %.2f s" % took
            each(sessions, 2)
            assert not errors(load), errors(load)[:3]
        if balancer.name != "the picker":  # it uses prompts and queues
            with report.check("its sessions stay, while others continue"):
                assert set(theirs) <= set(on(victim, sessions))
                for s in theirs:
                    assert not isinstance(s, Session) or (
                        {t[0] for t in s.turns[before[s]:]} == {victim.name}), s.turns
                assert not on(victim, others)
        network.fast(victim.name)
        each(sessions, 1)


def check_away(report, balancer, victim, first, away, back):
    """A server that is silent for a while, and then continues.  Recipes wait for 30 s; if a
    busy machine made it longer, answers there may be lost."""
    sessions = some(balancer, first, 9, 3)
    with Load(sessions) as load:
        each(sessions, 2)
        theirs = on(victim, sessions)
        began = time.monotonic()
        away()
        with report.check("the others serve, new sessions, too"):
            assert theirs, "no session is there"
            balancer.wait_gone(victim.name)
            theirs = sent_there(balancer, theirs, sessions)
            assert len(theirs) < len(sessions), "no session is elsewhere"
            new = [Session(first + 20 + i, balancer.port, KEY) for i in range(9)]
            for s in new:
                assert s.turn(), s.errors
                assert s.turns[0][0] != victim.name, s.turns
            each([s for s in sessions if s not in theirs], 2)
        back()
        is_short = time.monotonic() - began < 25
        with report.check("it returns as soon as possible, and nothing was lost"):
            balancer.wait(victim.name)
            each(sessions, 2)
            lost = [s for s in sessions if s.errors]
            may_be = [] if is_short else theirs
            assert all(s in may_be and len(s.errors) == 1 for s in lost), errors(load)[:3]


def check_parted(report, balancer, replicas):
    print("  an unreachable server:", flush=True)
    name = replicas[1].name
    check_away(report, balancer, replicas[1], 400, lambda: network.link(name, False),
               lambda: network.link(name, True))


def check_hung(report, balancer, replicas):
    print("  a reachable server that hangs:", flush=True)
    pid = replicas[2].process.pid
    check_away(report, balancer, replicas[2], 700, lambda: os.kill(pid, signal.SIGSTOP),
               lambda: os.kill(pid, signal.SIGCONT))


def check_gone(report, balancer, replicas):
    """A host that does not come back: as above, for longer than recipes wait."""
    victim = replicas[0]
    sessions = some(balancer, 600, 12, 0)
    with Load(sessions) as load:
        each(sessions, 2)
        theirs = on(victim, sessions)
        network.link(victim.name, False)
        cut = time.monotonic()
        with report.check("a host that does not come back: each session continues"):
            assert theirs, "no session is there"
            balancer.wait_gone(victim.name)
            theirs = sent_there(balancer, theirs, sessions)
            each(sessions, 3)
            for s in theirs:
                assert len(s.errors) <= 1 and s.turns[-1][0] != victim.name, (s.errors, s.turns)
            assert all(s in theirs for s in sessions if s.errors), errors(load)
        last = max((ended for s in theirs for _, ended, _ in s.errors), default=cut) - cut
        print("  no network: %d of %d answers lost, the last after %.0f s" % (
            len(errors(load)), len(theirs), last), flush=True)
    network.link(victim.name, True)
    balancer.wait(victim.name)


CHECKS = {"shares": check_shares, "sockets": check_sockets, "ways": check_ways,
          "leaving": check_leaving, "killed": check_killed, "slow": check_slow,
          "parted": check_parted, "hung": check_hung}
if WHOLE:
    CHECKS["gone"] = check_gone


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
            for name in sys.argv[2:] or CHECKS:
                CHECKS[name](report, balancer, replicas)
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
