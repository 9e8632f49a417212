"""mirror.py - a mirror of models, which can be made to wait."""

import http.server
import os
import shutil
import threading


class Mirror:
    """Serves files by name; /slow/NAME stops half-way until go() is called."""

    def __init__(self, files):
        self.gate = threading.Event()
        self.half = threading.Event()  # a slow one is half-way
        self.asked = []
        mirror = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                slow, name = self.path.startswith("/slow/"), self.path.rsplit("/", 1)[-1]
                mirror.asked.append(self.path)
                with open(files[name], "rb") as f:
                    data = f.read()
                begin = 0
                given = self.headers.get("Range")
                if given:
                    begin = int(given[len("bytes="):].rstrip("-"))
                self.send_response(206 if given else 200)
                if given:
                    self.send_header("Content-Range",
                                     "bytes %d-%d/%d" % (begin, len(data) - 1, len(data)))
                self.send_header("ETag", '"%d"' % len(data))
                self.send_header("Content-Length", str(len(data) - begin))
                self.end_headers()
                rest = data[begin:]
                try:
                    if slow:
                        self.wfile.write(rest[:len(rest) // 2])
                        self.wfile.flush()
                        rest = rest[len(rest) // 2:]
                        mirror.half.set()
                        mirror.gate.wait(60)
                    self.wfile.write(rest)
                except OSError:
                    pass

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = "http://127.0.0.1:%d" % self.server.server_port

    def go(self):
        self.gate.set()

    def close(self):
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()


def program_with_list(cerium, folder, lines):
    """A copy of the program beside a models.list of these lines; its path."""
    models = os.path.join(folder, "models")
    os.makedirs(models, exist_ok=True)
    program = os.path.join(folder, "cerium")
    shutil.copy(cerium, program)
    with open(os.path.join(models, "models.list"), "w") as f:
        f.writelines(" ".join(str(word) for word in line) + "\n" for line in lines)
    return program
