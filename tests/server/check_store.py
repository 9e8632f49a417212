"""check_store.py - files of other programs, a truncated live file, and bounds of the
store, with whole servers and `cerium keys`."""

import glob
import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))

from harness import CERIUM, MODEL, PATIENCE, Report, Server, free_port, line, wait_for  # noqa: E402

SCRIPT = [line("said", repeat=True, last="say")]
TEXT = "precious\n"
# Name, suffix of the file, its content: each is refused and stays unchanged.
FOREIGN = [
    ("a text for the database", "", "file"),
    ("a link to a text for the database", "", "link"),
    ("a link to nothing for the database", "", "dangling"),
    ("a FIFO for the database", "", "fifo"),
    ("a folder for the database", "", "folder"),
    ("a text for the live file", "-live", "file"),
    ("a private text for the live file", "-live", "private"),
    ("a text as long as a live file", "-live", "long"),
    ("a link for the live file", "-live", "link"),
    ("a link to nothing for the live file", "-live", "dangling"),
    ("another name for the live file", "-live", "name"),
    ("a FIFO for the live file", "-live", "fifo"),
    ("a folder for the live file", "-live", "folder"),
    ("a text for the log", "-wal", "file"),
    ("a link for the log", "-wal", "link"),
    ("a text for the index", "-shm", "file"),
    ("a text for the journal", "-journal", "file"),
]
LIVE_BYTES = 8919040  # of a live file


def make(kind, path):
    """Returns the file whose content and state must stay."""
    real = os.path.join(os.path.dirname(path), "real") if kind in ("link", "name") else path
    if kind in ("file", "private", "long", "link", "name"):
        with open(real, "w") as f:
            f.write(TEXT if kind != "long" else TEXT * (LIVE_BYTES // len(TEXT) + 1))
        if kind == "long":
            os.truncate(real, LIVE_BYTES)
        os.chmod(real, 0o600 if kind == "private" else 0o644)
    if kind == "link":
        os.symlink("real", path)
    elif kind == "dangling":
        os.symlink("nowhere", path)
    elif kind == "name":
        os.link(real, path)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        os.mkdir(path)
    return real


def state(path):
    s = os.lstat(path)
    content = None
    if os.path.isfile(path) and not os.path.islink(path):
        with open(path, "rb") as f:
            content = f.read()
    return s.st_mode, s.st_uid, s.st_size, s.st_ino, s.st_mtime_ns, s.st_ctime_ns, content


def run(*args):
    """Result of a program that should refuse: (status, None if it keeps running; output)."""
    with subprocess.Popen([CERIUM, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as p:
        try:
            return p.wait(20 * PATIENCE), p.stdout.read()
        except subprocess.TimeoutExpired:
            p.kill()
            return None, ""


def check_foreign(report):
    for what, end, kind in FOREIGN:
        with report.check("refused and left alone: " + what):
            with tempfile.TemporaryDirectory(prefix="cerium-store-") as folder:
                store = os.path.join(folder, "s.db")
                real = make(kind, store + end)
                before, here = state(real), sorted(os.listdir(folder))
                status, said = run("serve", "-m", MODEL, "--port", str(free_port()), "--store",
                                   store, "--quiet")
                assert status == 1 and store in said and said.count("\n") == 1, (status, said)
                if end != "-live":  # `keys` has none
                    status, said = run("keys", "add", "anna", "--store", store)
                    assert status == 1 and store in said, (status, said)
                assert state(real) == before, (state(real)[:6], before[:6])
                # Our own database may have been created before the live file was checked.
                left = [name for name in sorted(os.listdir(folder)) if name != "s.db"]
                assert left == [name for name in here if name != "s.db"], left


def ask(server, **fields):
    return server.json("POST", "/v1/responses", {"input": "say", "max_output_tokens": 4, **fields})


def check_cut(report):
    with Server(replay=SCRIPT) as server:
        live = glob.glob(os.path.join(server.folder, "*-live"))[0]
        whole = os.path.getsize(live)
        for length in (0, 1, 100, 4096, 300000, whole - 1):
            with report.check("a live file truncated to %d bytes" % length, server):
                os.truncate(live, length)
                for _ in range(5):
                    ask(server)
                wait_for(lambda: os.path.getsize(live) == whole)
                ask(server)
        with report.check("a live file truncated between two servers", server):
            assert server.stop() == 0
            os.truncate(live, 5000)
            server.start()
            ask(server)
            assert os.path.getsize(live) == whole
            assert server.stop(signal.SIGTERM) == 0
    with report.check("no request was lost"):
        with Server(replay=SCRIPT) as server:
            key = run("keys", "add", "anna", "--store", os.path.join(server.folder, "store.db"))
            assert key[0] == 0
            headers = {"Authorization": "Bearer " + key[1].split()[0]}
            # The server is open until it sees the key, and then ends connections without one.
            wait_for(lambda: server.request("GET", "/v1/models")[0] == 401)
            wait_for(lambda: server.request("GET", "/v1/models", headers=headers)[0] == 200)
            live = glob.glob(os.path.join(server.folder, "*-live"))[0]
            for i in range(20):
                if i % 5 == 2:
                    os.truncate(live, 0)
                status, _, body = server.request("POST", "/v1/responses", {
                    "input": "say", "max_output_tokens": 4}, headers)
                assert status == 200, body
            assert server.stop() == 0
            said = run("usage", "--store", os.path.join(server.folder, "store.db"), "--csv")[1]
            assert said.splitlines()[-1].split(",")[-5] == "20" or ",20," in said, said


def check_bounds(report):
    bound, n = 256 << 10, 400
    pad = {"k%d" % i: "x" * 400 for i in range(8)}
    with Server(replay=SCRIPT, args=["--store-max", "256K", "--store-days", "1"]) as server:
        ids = []
        with report.check("%d responses stay under a bound, the newest are there" % n, server):
            for i in range(n):
                ids.append(ask(server, metadata=pad,
                               **({"previous_response_id": ids[-1]} if i % 4 else {}))["id"])
            assert server.metric("cerium_store_bytes") <= bound
            wait_for(lambda: server.metric("cerium_store_expired_total") +
                     server.metric("cerium_store_responses") == n)
            kept = int(server.metric("cerium_store_responses"))
            assert 10 < kept < n / 2, kept
            for number in ids[n - kept:]:
                assert server.request("GET", "/v1/responses/" + number)[0] == 200
            for number in ids[: n - kept]:
                assert server.request("GET", "/v1/responses/" + number)[0] == 404
        with report.check("removed responses cannot be continued, the others can", server):
            status, _, body = server.request("POST", "/v1/responses", {
                "input": "say", "previous_response_id": ids[0]})
            assert status == 400 and b"previous_response_not_found" in body, (status, body)
            ask(server, previous_response_id=ids[-1])
            first = ids[n - kept + 2]  # its parent is about to be removed, or was
            assert server.request("GET", "/v1/responses/%s/input_items" % first)[0] == 200
        with report.check("the file stays under the bound, after kill -9 too", server):
            last = ask(server, metadata=pad)["id"]
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
            server.start()
            assert server.request("GET", "/v1/responses/" + last)[0] == 200
            assert server.metric("cerium_store_bytes") <= bound
            assert server.stop() == 0
            assert os.path.getsize(os.path.join(server.folder, "store.db")) < bound + (256 << 10)
    with report.check("an invalid bound is refused"):
        for value in ("0", "-1", "x", "1.5G"):
            status, said = run("serve", "-m", MODEL, "--store-max", value)
            assert status == 2 and "--store-max" in said, (status, said)


def main():
    report = Report("store")
    check_foreign(report)
    check_cut(report)
    check_bounds(report)
    report.end()


main()
