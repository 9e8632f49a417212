"""check_lsp_setup.py - the model, the server and the settings of `cerium lsp`."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time

from client import Client
from kit import CERIUM, CODE, NEXT, begin, check, end, is_sanitized, seen, type_text
from proxy import Proxy

# ---- the model, the server, settings ----

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_until(what):
    for _ in range(1200):
        if what():
            return True
        time.sleep(0.05)
    return False


def uses_socket(c, proxy):
    """Does a completion go by the WebSocket?  Each in a file of its own: nothing is known of it."""
    uri = f"file:///w/first{len(c.texts)}.py"
    c.open(uri, "x = ")
    c.inline(uri, 4, 1)
    return proxy.of("completion.create")


def test_missing_model():
    c = begin(args=("-m", "/nowhere/x.gguf"))
    note = c.wait_note("window/showMessage")
    check("one clear message", "/nowhere/x.gguf" in note["params"]["message"] and
          note["params"]["type"] == 1, note)
    c.open("file:///w/a.py", CODE)
    for i in range(5):
        check("typing goes on", c.inline("file:///w/a.py", len(CODE), 1) == [])
    check("and only one", not [n for n in c.notes if n["method"] == "window/showMessage"])
    end("missing model", c)


def test_server():
    """--server: nobody there, then somebody, then nobody again."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    c = begin(options={"minConfidence": 0}, args=("--server", f"http://127.0.0.1:{port}"))
    note = c.wait_note("window/showMessage")
    check("it says that nobody is there, and what to do",
          "cerium serve" in note["params"]["message"], note)
    uri = "file:///w/remote.py"
    c.open(uri, CODE + "    def sub(self, ")
    at = len(c.texts[uri])
    check("meanwhile nothing", c.inline(uri, at) == [])

    def serve():
        return subprocess.Popen([CERIUM, "serve", "--port", str(port), "--guard", "off"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def until(kind):
        for _ in range(1200):
            if c.ask("cerium/status", None)["kind"] == kind:
                return True
            time.sleep(0.1)
        return False

    server = serve()
    check("it is found by itself", until("Normal"))
    items = c.inline(uri, at, 1)
    check("and completes", items and items[0]["insertText"], items)
    shown = 0
    for at, item in type_text(c, uri, at, "other):\n        return"):
        shown += item is not None
    check("typing is followed there, too", shown > 3, shown)
    server.kill()
    server.wait()
    c.change(uri, at, at, " q")
    c.inline(uri, at + 2)
    check("it goes, and is missed", until("Error"))
    c.notes = [n for n in c.notes if n["method"] != "window/showMessage"]
    for i in range(5):
        c.inline(uri, at + 2)
    check("without further words", not [n for n in c.notes
                                        if n["method"] == "window/showMessage"])
    server = serve()
    check("and is found again", until("Normal"))
    shows = begin(options={"minConfidence": 0, "status": True},
                  args=("--server", f"http://127.0.0.1:{port}"))
    shows.open(uri, CODE + "    def sub(self, ")
    while shows.wait_note("didChangeStatus")["params"]["kind"] != "Normal":
        pass
    check("it completes", shows.inline(uri, len(shows.texts[uri]), 1))
    check("tokens a second are told",
          shows.ask("cerium/status", None)["tokens_per_second"] > 0)
    server.kill()
    server.wait()
    shows.inline(uri, len(CODE), 1)
    check("an editor that shows the state is told it",
          shows.wait_note("didChangeStatus")["params"]["kind"] == "Error")
    check("and nothing else", not [n for n in shows.notes if n["method"] == "window/showMessage"])
    end("server, with a status", shows)
    end("server", c)


def test_kept_documents():
    """--server: the server keeps the text, and a key sends what differs; without that, POST."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    server = subprocess.Popen([CERIUM, "serve", "--port", str(port), "--guard", "off"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    typed, shown = "other):\n        return Point(self.x - other", {}
    text = "# é😀\r\n" * 200 + CODE.replace("\n", "\r\n") + "    def sub(self, "
    proxies = [Proxy(port), Proxy(port), Proxy(port, has_sockets=False),
               Proxy(port, drops="document.open")]

    try:
        for kind, proxy in zip(("kept", "cut", "post", "old"), proxies):
            c = begin(options={"minConfidence": 0.01, "retrieval": False},
                      args=("--server", f"http://127.0.0.1:{proxy.port}"))
            c.ready()
            for _ in range(1200):
                if c.ask("cerium/status", None)["kind"] == "Normal":
                    break
                time.sleep(0.1)
            uris = [f"file:///w/{n}/kept.py" for n in "ab"]  # of one name
            shown[kind] = []
            if kind in ("kept", "cut"):
                check("a socket opens", wait_until(lambda: proxy.sockets))
                check("and is used", wait_until(lambda: uses_socket(c, proxy)))
                proxy.posts.clear()
                proxy.messages.clear()
            for uri in uris:
                c.open(uri, text)
            for n, key in enumerate(typed):
                for uri in uris:
                    at = len(c.texts[uri])
                    c.change(uri, at, at, key)
                    if kind == "cut" and n % 10 == 5:
                        proxy.cut()
                    items = c.inline(uri, at + 1, 1)
                    shown[kind].append(items[0]["insertText"] if items else "")
            creates = proxy.of("completion.create")
            if kind == "kept":
                check("no text is sent with a request", creates and not [
                    m for m in creates if "prefix" in m or "position" not in m], creates[:1])
                check("nor posted", not proxy.posts, proxy.posts)
                check("each text is opened once", len(proxy.of("document.open")) == 2,
                      len(proxy.of("document.open")))
                sent = sum(len(json.dumps(m)) for m in proxy.messages
                           if m["type"] != "document.open")
                check("a request takes few bytes", sent < 700 * len(creates),
                      (sent, len(creates)))
            if kind == "cut":
                check("a lost connection is made again", wait_until(lambda: c.inline(
                    uris[0], 0, 1) is not None and proxy.sockets))
                check("and its texts are opened again", len(proxy.of("document.open")) > 2,
                      len(proxy.of("document.open")))
                check("without a word", not [n for n in c.notes
                                             if n["method"] == "window/showMessage"], c.notes)
            if kind == "post":
                check("without a socket all is posted", not creates and "/infill" in proxy.posts)
            if kind == "old":
                check("a server that does not keep texts is asked twice, and then by POST",
                      len(creates) <= 2 and "/infill" in proxy.posts, (len(creates), proxy.posts))
            end(kind, c)
        found = {}
        for kind, proxy in (("kept", proxies[0]), ("post", proxies[2])):
            proxy.messages.clear()
            c = begin(options={"minConfidence": 0.01},
                      args=("--server", f"http://127.0.0.1:{proxy.port}"))
            c.ready()
            check(f"{kind}: it is ready", wait_until(
                lambda c=c: c.ask("cerium/status", None)["kind"] == "Normal"))
            if kind == "kept":
                check("a socket opens again",
                      wait_until(lambda c=c, proxy=proxy: uses_socket(c, proxy)))
            c.open("file:///w/other.py", "def total_in_euros(basket):\n    return 1\n" * 3)
            c.open("file:///w/files.py", "from other import total_in_euros\n\nprint(tot")
            found[kind] = [i["insertText"] for i in c.inline("file:///w/files.py", 43, 1)]
            if kind == "kept":
                check("snippets of other files are sent", [
                    m for m in proxy.of("completion.create") if m.get("files")],
                    proxy.of("completion.create"))
            end(f"{kind} with files", c)
        check("completions with other files' lines are those of POST",
              found["kept"] and found["kept"] == found["post"], found)
        check("those of a server that keeps no texts", shown["old"] == shown["post"])
        check("completions are those of POST /infill", shown["kept"] == shown["post"] and
              any(shown["kept"]), [(a, b) for a, b in zip(shown["kept"], shown["post"])
                                   if a != b][:3])
        check("also where connections are lost", shown["cut"] == shown["post"],
              [(a, b) for a, b in zip(shown["cut"], shown["post"]) if a != b][:3])
    finally:
        for proxy in proxies:
            proxy.close()
        server.kill()
        server.wait()


def test_key():
    """A server that wants a key: one message says where to put it."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    server = subprocess.Popen([CERIUM, "serve", "--port", str(port), "--guard", "off",
                               "--api-key", "sk-one"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        for _ in range(1200):
            with socket.socket() as sock:
                if not sock.connect_ex(("127.0.0.1", port)):
                    break
            time.sleep(0.1)
        c = begin(args=("--server", f"http://127.0.0.1:{port}"), env={"CERIUM_API_KEY": "sk-two"})
        note = c.wait_note("window/showMessage")["params"]["message"]
        check("another key is asked for, by its name", "CERIUM_API_KEY" in note, note)
        end("another key", c)
        c = begin(args=("--server", f"http://127.0.0.1:{port}"), env={"CERIUM_API_KEY": "sk-one"})
        check("with the key all is well", c.ready()["kind"] == "Normal")
        end("the key", c)
    finally:
        server.kill()
        server.wait()


def connected(proxy, **options):
    """A client of the server behind that proxy, whose WebSocket is used if there is one."""
    c = begin(args=("--server", f"http://127.0.0.1:{proxy.port}"), **options)

    def is_ready():
        status = c.ask("cerium/status", None)
        return status["kind"] == "Normal" and not status["busy"]

    check("it is ready", wait_until(is_ready))
    if proxy.has_sockets:
        check("a socket is used", wait_until(lambda: uses_socket(c, proxy)))
    return c


def test_predictions():
    """--server: where nothing follows from the last edit, a model for edits is asked: over the
    WebSocket, and by POST where there is none or it is lost."""
    port = free_port()
    before = "a = one(1)\r\nb = two(2)\r\nc = three(3)\r\n"
    prompt = ("original:\na = one(1)\nb = two(2)\nupdated:\na = ein(1, 2)\nb = two(2)\n"
              "<|file_sep|>original/p.py:1:4\na = one(1)\nb = two(2)\nc = three(3)\n"
              "<|file_sep|>current/p.py:1:4\na = ein(1, 2)<|cursor|>\nb = two(2)\nc = three(3)\n")
    line = {"output": "a = ein(1, 2)\nb = two(2)\nc = three(3, 4)", "repeat": True,
            "when": {"api": "edits", "last": prompt}}
    words = " ".join("word%d" % i for i in range(900))
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "answers.jsonl")
        with open(script, "w", encoding="utf-8") as f:
            f.write(json.dumps(line) + "\n" + json.dumps(
                {"output": words, "when": {"api": "edits"}, "repeat": True}) + "\n")
        server = subprocess.Popen(
            [CERIUM, "serve", "--port", str(port), "--guard", "off", "--replay", script,
             "--edit-format", "sweep"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        proxies = [Proxy(port), Proxy(port), Proxy(port, has_sockets=False),
                   Proxy(port, drops="document.open")]
        try:
            for kind, proxy in zip(("kept", "cut", "post", "old"), proxies):
                c = connected(proxy)
                uri = "file:///w/p.py"
                c.open(uri, before)
                at = before.index("one(1)")
                c.change(uri, at, at + 5, "ein(1, 2")
                asked = {"textDocument": {"uri": uri, "version": 2},
                         "position": Client.position(c.texts[uri], at + 9)}
                id_ = c.request(NEXT, asked)
                if kind == "cut":
                    proxy.cut()
                edits = c.wait(id_)["result"]["edits"]
                check(f"{kind}: a model's edit, in the file's line ends",
                      len(edits) == 1 and edits[0]["text"] == "c = three(3, 4)\r\n" and
                      edits[0]["range"] == {"start": {"line": 2, "character": 0},
                                            "end": {"line": 3, "character": 0}} and
                      edits[0]["textDocument"] == {"uri": uri, "version": 2}, edits)
                c.change(uri, 0, 0, "y")  # the model takes long now
                asked["textDocument"]["version"] = 3
                older = c.request(NEXT, asked)
                newer = c.request(NEXT, asked)
                check(f"{kind}: a newer question answers the older with nothing",
                      c.wait(older)["result"] == {"edits": []})
                c.change(uri, 0, 0, "x")
                check(f"{kind}: and so does a change", c.wait(newer)["result"] == {"edits": []})
                last = c.request(NEXT, {**asked, "textDocument": {"uri": uri, "version": 4}})
                c.notify("$/cancelRequest", {"id": last})
                check(f"{kind}: canceled", c.wait(last)["error"]["code"] == -32800)
                posted = "/v1/edit-predictions" in proxy.posts
                asks = proxy.of("edit.predict")
                if kind == "kept":
                    check("it is asked over the socket", asks and not posted, proxy.posts)
                    check("the texts are sent apart", not [m for m in asks if {
                        "prefix", "suffix", "original"} & set(m)], asks[:1])
                if kind in ("post", "old"):
                    check(f"{kind}: it is posted", posted, proxy.posts)
                end(f"predictions, {kind}", c)
        finally:
            for proxy in proxies:
                proxy.close()
            server.kill()
            server.wait()


def memory_of(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmRSS:"))


def test_closed_documents():
    """--server: a document that the editor closes is closed at the server, which has its memory
    back; its window, too."""
    port, size = free_port(), 3 << 20
    line = "value_%06d = compute(%d)\n"
    text = "".join(line % (i, i) for i in range(size // len(line % (0, 100000))))
    if is_sanitized():
        print("skipped: the memory of closed documents: the sanitizer has its own")
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "answers.jsonl")
        with open(script, "w", encoding="utf-8") as f:
            f.write(json.dumps({"output": "x", "when": {"api": "edits"}, "repeat": True}) + "\n")
        server = subprocess.Popen(
            [CERIUM, "serve", "--port", str(port), "--guard", "off", "--replay", script,
             "--edit-format", "sweep"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        proxy = Proxy(port)
        try:
            c = connected(proxy)
            uris = [f"file:///w/large{i}.py" for i in range(4)]
            for uri in uris:
                c.open(uri, text)
                c.change(uri, 8, 8, "x")
                asked = {"textDocument": {"uri": uri, "version": 2},
                         "position": {"line": 0, "character": 9}}
                c.ask(NEXT, asked)
                check("it is asked over the socket", wait_until(lambda: proxy.of("edit.predict")))
                proxy.messages.clear()
                c.change(uri, 9, 9, "y")
                c.ask(NEXT, {**asked, "textDocument": {"uri": uri, "version": 3}})
                sent = sum(len(json.dumps(m)) for m in proxy.messages)
                check("a key takes few bytes", proxy.of("edit.predict") and sent < 1000, sent)
                full = memory_of(server)
                c.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
                c.ask("cerium/status", None)
                check("the server is told", wait_until(lambda: proxy.of("document.close")))
                check("and has its memory back", is_sanitized() or wait_until(
                    lambda full=full: memory_of(server) < full - len(text) * 0.9),
                    (full, memory_of(server)))
                proxy.messages.clear()
            c.open("file:///w/small.py", "x = ")
            c.inline("file:///w/small.py", 4, 1)
            slot = proxy.of("completion.create")[-1]["document"]
            c.notify("textDocument/didClose", {"textDocument": {"uri": "file:///w/small.py"}})
            check("a window is closed with its document", wait_until(
                lambda: [m for m in proxy.of("document.close") if m["path"] == slot]))
            end("closed documents", c)
        finally:
            proxy.close()
            server.kill()
            server.wait()


def test_forced_lines():
    """--server: of the weak lines that the watchdog's tests force, none is shown."""
    endings = {"python": "py", "javascript": "js", "ruby": "rb"}
    with open("tests/guard/forced.jsonl", encoding="utf-8") as f:
        forced = [json.loads(line) for line in f]
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "answers.jsonl")
        with open(script, "w", encoding="utf-8") as f:
            for i, one in enumerate(forced):
                f.write(json.dumps({"output": one["weak"], "repeat": True,
                                    "when": {"api": "infill", "last": f"case{i}_\n"}}) + "\n")
        shown = {}
        for guard in ("on", "off"):
            port, shown[guard] = free_port(), set()
            server = subprocess.Popen(
                [CERIUM, "serve", "--port", str(port), "--replay", script,
                 *(["--guard", "off"] if guard == "off" else [])],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            proxy = Proxy(port)
            try:
                c = connected(proxy)
                for i, one in enumerate(forced):
                    language = one["language"]
                    uri = f"file:///w/forced{i}.{endings.get(language, language)}"
                    mark = "#" if language in ("python", "ruby") else "//"
                    head = "<?php\n" if language == "php" else ""
                    prompt = one["prompt"].removeprefix(head)
                    text = f"{head}{mark} case{i}_\n{prompt}"
                    c.open(uri, text, language)
                    for item in c.inline(uri, len(text), 1):
                        if one["weak"].split("\n")[0].strip() in item["insertText"]:
                            shown[guard].add(i)
                end(f"forced lines, guard {guard}", c)
            finally:
                proxy.close()
                server.kill()
                server.wait()
    check("without a watchdog they are shown", len(shown["off"]) > len(forced) * 3 // 4,
          [forced[i] for i in range(len(forced)) if i not in shown["off"]][:3])
    check("with it, none", not shown["on"], [forced[i] for i in shown["on"]][:3])


def test_predictions_here():
    """The same by the model in the process, whose file names its form."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    before = "a = one(1)\r\nb = two(2)\r\nc = three(3)\r\n"
    weak = "a = ein(1, 2)\nb = two(2)\nc = eval(input())"
    with tempfile.TemporaryDirectory() as folder:
        model, script = folder + "/sweep.gguf", folder + "/answer"
        subprocess.run([sys.executable, f"{root}/training/add_keys.py",
                        f"{root}/models/cerium-line.gguf", model, "cerium.edit_format=sweep"],
                       check=True)
        open(script, "w").close()
        c = begin(args=("-m", model, "--replay", script))
        c.ready()

        def ask(said, wait=True):
            with open(script, "w") as f:
                f.write(said)
            uri = f"file:///p/{len(c.texts)}.py"
            c.open(uri, before)
            at = before.index("one(1)")
            c.change(uri, at, at + 5, "ein(1, 2")
            asked = {"textDocument": {"uri": uri, "version": 2},
                     "position": Client.position(c.texts[uri], at + 9)}
            id_ = c.request(NEXT, asked)
            return c.wait(id_)["result"]["edits"] if wait else (uri, asked, id_)

        edits = ask("a = ein(1, 2)\nb = two(2)\nc = three(3, 4)")
        check("an edit of the model here, in the file's line ends",
              len(edits) == 1 and edits[0]["text"] == "c = three(3, 4)\r\n" and
              edits[0]["range"]["start"] == {"line": 2, "character": 0}, edits)
        check("what changes nothing proposes nothing",
              ask("a = ein(1, 2)\nb = two(2)\nc = three(3)") == [])
        check("nor does a weak line", ask(weak) == [], weak)
        uri, asked, older = ask(" ".join("word%d" % i for i in range(300)), wait=False)
        newer = c.request(NEXT, asked)
        check("a newer question answers the older", c.wait(older)["result"] == {"edits": []})
        c.change(uri, 0, 0, "x")
        check("and a change the newer", c.wait(newer)["result"] == {"edits": []})
        check("and then all goes on", len(ask("a = ein(1, 2)\nb = 2\nc = three(3)")) == 1)
        end("predictions here", c)


def test_settings():
    c = Client(program=CERIUM)
    seen.append(c)
    c.configuration = {"enable": False}
    c.initialize({"workspace": {"configuration": True,
                                "didChangeConfiguration": {"dynamicRegistration": True}}})
    c.wait_note("workspace/configuration")
    c.ready()
    uri = "file:///w/set.py"
    c.open(uri, CODE + "    def sub(self, ")
    at = len(c.texts[uri])
    check("off by the editor's settings", c.inline(uri, at, 1) == [])
    c.configuration = {"enable": True, "minConfidence": 0}
    c.notify("workspace/didChangeConfiguration", {"settings": None})
    c.wait_note("workspace/configuration")
    time.sleep(0.1)
    check("and on again", c.inline(uri, at, 1) != [])
    end("settings", c)
