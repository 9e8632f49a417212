"""fake_upstream.py - another server that answers as a test wants, by a function of a socket."""

import json
import re
import socket
import threading

REFUSAL = (b"HTTP/1.1 400 No\r\nContent-Length: 38\r\n\r\n"
           b"{\"error\":{\"message\":\"too warm a day\"}} ")


def chunk(content, **more):
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": content},
                                                **more}]}).encode() + b"\n\n"


class FakeUpstream:
    """Answers each connection by `self.act(socket)`, after it read the head of a request."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = "http://127.0.0.1:%d/v1" % self.port
        self.n, self.act = 0, None
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            s, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def serve(self, s):
        data = b""
        try:
            while b"\r\n\r\n" not in data:
                data += s.recv(65536)
            self.read(s, data)
            self.n += 1
            self.act(s)
        except OSError:
            pass
        finally:
            s.close()

    def read(self, s, data):
        """Hook: reads more of the request before the answer."""


class ReadingUpstream(FakeUpstream):
    """Reads the body, too, into self.asked."""

    asked = None

    def read(self, s, data):
        head, body = data.split(b"\r\n\r\n", 1)
        length = int(re.search(rb"content-length: (\d+)", head, re.I).group(1))
        while len(body) < length:
            body += s.recv(65536)
        self.asked = json.loads(body)
