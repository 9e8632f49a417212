#!/usr/bin/env python3
"""A server that breaks off, lies, redirects, dawdles and wants tokens, and what cerium pull makes
of it.

    check_pull.py CERIUM MODEL
"""
import hashlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CERIUM, MODEL = sys.argv[1:3]
BODY = open(MODEL, "rb").read()
SHA = hashlib.sha256(BODY).hexdigest()
passed = failed = 0
seen = []  # (path, headers) of each request


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, code, body, cut=None, length=None, **headers):
        self.send_response(code)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body if cut is None else body[:cut])
        if cut is not None or length is not None:
            self.close_connection = True

    def part(self, body, cut=None, tag='"v1"', heeds=True, **headers):
        """The whole, or what follows a range that is asked for."""
        asked = self.headers.get("Range")
        if asked and heeds and self.headers.get("If-Range") == tag:
            begin = int(asked.removeprefix("bytes=").removesuffix("-"))
            headers["Content_Range"] = f"bytes {begin}-{len(body) - 1}/{len(body)}"
            return self.send(206, body[begin:], cut, ETag=tag, **headers)
        return self.send(200, body, cut, ETag=tag, **headers)

    def do_GET(self):
        name = self.path.split("/")[1]
        nth = sum(1 for path, _ in seen if path == self.path)
        seen.append((self.path, dict(self.headers)))
        port = self.server.server_address[1]
        third = len(BODY) // 3
        if name == "whole":
            self.part(BODY)
        elif name == "breaks":  # three times
            self.part(BODY, third if nth < 2 else None)
        elif name == "ignores":  # ranges
            self.part(BODY, third if nth == 0 else None, heeds=False)
        elif name == "changes":  # between two tries
            self.part(BODY, third, '"v1"') if nth == 0 else self.part(BODY, tag='"v2"')
        elif name == "elsewhere":  # another part than was asked for, then the right one
            if self.headers.get("Range") and nth == 1:
                self.send(206, BODY[5:], ETag='"v1"',
                          Content_Range=f"bytes 5-{len(BODY) - 1}/{len(BODY)}")
            else:
                self.part(BODY, third if nth == 0 else None)
        elif name == "short":  # says more than it sends, every time
            self.send(200, BODY[:third], length=len(BODY))
        elif name == "wrong":
            self.part(BODY[:-1] + bytes([BODY[-1] ^ 1]), X_Linked_Etag=f'"{SHA}"')
        elif name == "linked":
            self.part(BODY, X_Linked_Etag=f'"{SHA}"')
        elif name == "page":
            self.send(200, b"<html>log in</html>")
        elif name == "redirect":
            self.send(302, b"", Location=f"http://localhost:{port}/whole/model.gguf")
        elif name == "circle":
            self.send(302, b"", Location=self.path)
        elif name == "file":
            self.send(302, b"", Location="file:///etc/passwd")
        elif name == "token":
            good = self.headers.get("Authorization") == "Bearer secret"
            self.part(BODY) if good else self.send(401, b"no")
        elif name == "busy":
            self.send(503, b"later") if nth < 2 else self.part(BODY)
        elif name == "dawdles":  # once
            if nth == 0:
                self.send_response(200)
                self.send_header("Content-Length", str(len(BODY)))
                self.send_header("ETag", '"v1"')
                self.end_headers()
                self.wfile.write(BODY[:third])
                self.wfile.flush()
                time.sleep(4)
                self.close_connection = True
            else:
                self.part(BODY)
        elif name == "split":
            self.part(BODY)
        else:
            self.send(404, b"no")


class Server(ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """A client that hangs up, as it should, is no news."""


def pull(work, *args, **env):
    return subprocess.run([CERIUM, "pull", *args], capture_output=True, text=True, check=False,
                          env={"PATH": os.environ["PATH"], "CERIUM_MODELS": work, **env})


def check(name, good, told=""):
    global passed, failed
    if good:
        passed += 1
    else:
        failed += 1
        print(f"  FAIL {name}: {told}")


def main():
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_address[1]}"

    def fresh(what, *args, want=0, text="", **env):
        """In a folder of its own; what must be there afterwards."""
        with tempfile.TemporaryDirectory() as work:
            done = pull(work, f"{base}/{what}/model.gguf", *args, **env)
            path = os.path.join(work, "model.gguf")
            is_there = os.path.exists(path)
            same = is_there and open(path, "rb").read() == BODY
            one_line = want == 0 or done.stderr.count("\n") == 1
            check(what, done.returncode == want and is_there == (want == 0) and one_line
                  and (same or want) and text in done.stderr and not done.stdout,
                  f"{done.returncode} {done.stderr}")
            # Where a file has no attributes, its address is in a hidden file.
            left = sorted(n for n in os.listdir(work)
                          if n not in ("model.gguf", ".model.gguf.address"))
            check(f"{what}: nothing else is left", want or not left, left)
            return done, left

    fresh("whole")
    fresh("whole", "--checksum", SHA)
    _, left = fresh("whole", "--checksum", "0" * 64, want=1, text="other bytes came")
    check("wrong bytes do not stay", not left, left)
    fresh("breaks")
    ranges = [h.get("Range") for path, h in seen if path.startswith("/breaks")]
    check("each try goes on", ranges[0] is None and len(ranges) == 3 and
          ranges[1] == f"bytes={len(BODY) // 3}-", ranges)
    for what in ("ignores", "changes", "elsewhere", "busy", "linked", "redirect"):
        fresh(what)
    fresh("dawdles", "--stall", "1")
    fresh("wrong", want=1, text="other bytes came")
    fresh("page", want=1, text="not a GGUF file")
    fresh("nowhere", want=1, text="nothing at that address")
    fresh("circle", want=1)
    fresh("file", want=1)
    _, left = fresh("short", want=1, text="kept: try again")
    check("a beginning is kept", any(n.endswith(".part") for n in left), left)
    fresh("token", want=1, text="wants a token")
    fresh("token", CERIUM_PULL_TOKEN="secret")
    fresh("token", want=1, text="wants a token", HF_TOKEN="secret")
    del seen[:]
    fresh("redirect", CERIUM_PULL_TOKEN="secret")
    told = {path: h.get("Authorization") for path, h in seen}
    check("another host does not see the token", told.get("/redirect/model.gguf") and
          told.get("/whole/model.gguf", "") is None, told)

    with tempfile.TemporaryDirectory() as work:
        done = pull(work, f"{base}/split/m-00001-of-00003.gguf")
        parts = [n for n in os.listdir(work) if not n.startswith(".")]
        check("all parts", len(parts) == 3 and not done.returncode, done.stderr)
        pull(work, f"{base}/whole/named.gguf")
        again = pull(work, f"{base}/whole/named.gguf")
        check("it is there already", "there already" in again.stderr and not again.returncode,
              again.stderr)
        other = pull(work, f"{base}/redirect/named.gguf")
        check("another address is another file", other.returncode == 1 and
              "from another address" in other.stderr and "/whole/named.gguf" in other.stderr and
              other.stderr.count("\n") == 1, other.stderr)
        other = pull(work, f"{base}/whole/named.gguf", "--checksum", "0" * 64)
        check("other bytes than those that are there", other.returncode == 1 and
              "is another file" in other.stderr, other.stderr)
        run = subprocess.run([CERIUM, "inspect", "-m", "named"], capture_output=True, text=True,
                             check=False, env={**os.environ, "CERIUM_MODELS": work})
        check("-m finds it", run.returncode == 0, run.stderr)
        port = server.server_address[1]
        done = pull(work, "http://model.example/whole/by.gguf",
                    http_proxy=f"http://127.0.0.1:{port}")
        check("by a proxy", "nothing at that address" in done.stderr, done.stderr)
        check("a proxy sees the whole address", seen[-1][0].startswith("http://model.example/"),
              seen[-1][0])
        for wrong, text in (("fly", "neither a short name"), (f"{base}/whole/", "--to"),
                            (f"{base}/..gguf", "--to")):
            done = pull(work, wrong)
            check(f"refused: {wrong}", done.returncode == 2 and text in done.stderr, done.stderr)
        names = pull(work, "--list")
        check("short names", "gpt-oss-20b" in names.stdout, names.stderr)
    print(f"pull: {passed} passed, {failed} failed")
    sys.exit(failed != 0)


main()
