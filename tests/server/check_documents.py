"""check_documents.py - documents open on the server: document.open, document.change and
document.close over a WebSocket, and completions and edits at places in them."""

import random

from talk import RawSocket, Report, Server, line, wait_for

TEXT = "def area(width, height):\n    return width * height\n\n\ndef volume(width, height, deep):\n"
TYPED = "    return width * hei"


class Client:
    """A document, on both sides."""

    def __init__(self, socket, path="a.py", text=""):
        self.socket, self.path, self.text, self.n = socket, path, text, 0
        socket.send_json({"type": "document.open", "path": path, "version": 1, "text": text})

    def place(self, at):
        head = self.text[:at]
        return {"line": head.count("\n"),
                "character": len(head[head.rfind("\n") + 1:].encode("utf-16-le")) // 2}

    def change(self, start, end, new, **fields):
        change = {"range": {"start": self.place(start), "end": self.place(end)}, "text": new}
        self.text = self.text[:start] + new + self.text[end:]
        self.socket.send_json({"type": "document.change", "path": self.path, "changes": [change],
                               **fields})

    def complete(self, **fields):
        """Its text, its reason, its tokens."""
        self.n += 1
        name = "c%d" % self.n
        self.socket.send_json({"type": "completion.create", "id": name, "path": self.path,
                               "max_tokens": 8, "min_confidence": 0, **fields})
        text = ""
        while True:
            event = self.socket.read_json()
            assert event.get("id") == name and event["type"] != "error", event
            if event["type"] == "completion.done":
                return text, event["reason"], event["usage"]["input_tokens"]
            text += event.get("delta", "")  # a sign of life has none

    def sides(self, at):
        return {"prefix": self.text[:at], "suffix": self.text[at:]}


def refused(socket, message, code, param):
    socket.send_json(message)
    event = socket.read_json()
    error = event["error"]
    assert event["type"] == "error" and (error["code"], error["param"]) == (code, param), event
    return event


def check_texts(report, server):
    with report.check("a completion at a place equals that of the text around it", server):
        with RawSocket(server.port) as s:
            c = Client(s, text=TEXT)
            at = len(TEXT)
            for key in TYPED:
                c.change(at, at, key)
                at += 1
            here = c.complete(position=c.place(at))
            assert here == c.complete(**c.sides(at)) and here[0], here
    with report.check("after any changes, with any characters", server):
        rng = random.Random(3)
        with RawSocket(server.port) as s:
            c = Client(s, text=TEXT)
            for i in range(400):
                start = rng.randrange(len(c.text) + 1)
                end = min(len(c.text), start + rng.randrange(4))
                c.change(start, end, rng.choice(["x", "\n", "", "\U0001f980", "\u00e9 ", "    "]))
                if i % 40 == 0:
                    at = rng.randrange(len(c.text) + 1)
                    here, there = c.complete(position=c.place(at)), c.complete(**c.sides(at))
                    assert here == there, (here, there, c.sides(at))
    with report.check("another open file is sent once", server):
        with RawSocket(server.port) as s:
            other = "def breadth_of(shape):\n    return shape.breadth\n" * 5
            Client(s, "b.py", other)
            c = Client(s, text=TEXT)
            place = c.place(len(TEXT))
            here = c.complete(position=place, files=[{"path": "b.py"}])
            there = c.complete(position=place, files=[{"path": "b.py", "text": other}])
            assert here == there and here[2] > c.complete(position=place)[2] + 50, (here, there)
    with report.check("two documents of one name", server):
        with RawSocket(server.port) as s:
            one, two = Client(s, "k1", TEXT), Client(s, "k2", TEXT + "x = 1\n" + TEXT)
            both = {n: c.complete(path="a.py", document=n, position=c.place(len(c.text)))
                    for n, c in (("k1", one), ("k2", two))}
            assert both["k1"][2] < both["k2"][2], both
            for n, c in (("k1", one), ("k2", two)):
                assert both[n] == c.complete(path="a.py", **c.sides(len(c.text)))[:3], both
    with report.check("a text of 2 MB: what is near is sent to the model", server):
        with RawSocket(server.port) as s:
            c = Client(s, text="x = 1\n" * 340000 + TEXT)
            assert c.complete(position=c.place(len(c.text)))[1] in ("stop", "length")


def check_refusals(report, server):
    with report.check("invalid requests: one clear line, and the socket stays open", server):
        with RawSocket(server.port) as s:
            c = Client(s, text=TEXT)
            asked = {"type": "completion.create", "id": "x", "path": "a.py",
                     "position": {"line": 0, "character": 0}}
            event = refused(s, {**asked, "path": "b.py"}, "document_not_open", "path")
            assert event["id"] == "x" and event["status"] == 404, event
            refused(s, {**asked, "path": None}, "invalid_value", "path")
            refused(s, {**asked, "document": "b.py"}, "document_not_open", "document")
            refused(s, {**asked, "document": 5}, "invalid_value", "document")
            refused(s, {**asked, "version": 2}, "document_changed", "version")
            refused(s, {**asked, "version": "1"}, "invalid_value", "version")
            for place in (5, {"line": -1, "character": 0}, {"line": 1 << 40, "character": 0},
                          {"line": 0}):
                refused(s, {**asked, "position": place}, "invalid_value", "position")
            refused(s, {**asked, "files": [{"path": "b.py"}]}, "document_not_open", "files")
            refused(s, {"type": "document.close", "path": "b.py"}, "document_not_open", "path")
            refused(s, {"type": "document.open", "path": "", "text": ""}, "invalid_value", "path")
            refused(s, {"type": "document.open", "path": "b"}, "invalid_value", "text")
            refused(s, {"type": "document.open", "path": "b", "text": "", "version": 1.5},
                    "invalid_value", "version")
            assert c.complete(position=c.place(3), version=1)[1]
    with report.check("an invalid change closes the document", server):
        backwards = {"range": {"start": {"line": 1, "character": 1},
                               "end": {"line": 0, "character": 0}}, "text": ""}
        with RawSocket(server.port) as s:
            for fields, param in (({"changes": 5}, "changes"), ({"changes": [{}]}, "changes"),
                                  ({"changes": [backwards]}, "range"),
                                  ({"changes": [], "version": 1}, "version")):
                Client(s, text=TEXT)
                change = {"type": "document.change", "path": "a.py", **fields}
                refused(s, change, "invalid_value", param)
                refused(s, change, "document_not_open", "path")
    with report.check("documents have bounds", server):
        with RawSocket(server.port) as s:
            for i in range(64):
                Client(s, "%d" % i, "x")
            refused(s, {"type": "document.open", "path": "64", "text": ""}, "too_many_documents",
                    "path")
            s.send_json({"type": "document.close", "path": "0"})
            refused(s, {"type": "document.open", "path": "64", "text": "x" * (16 << 20)},
                    "documents_too_large", "text")
            assert Client(s, "64", "y = ").complete(position={"line": 0, "character": 4})[1]


def check_edits(report):
    script = [line("int a;\nint x;", repeat=True, api="edits", last="int<|cursor|> b;"),
              line("int b;\nint x;", repeat=True, api="edits", last="int opened;")]
    with Server(replay=script, context=16384, args=["--edit-format", "sweep"]) as server:
        with report.check("edits at a place", server):
            with RawSocket(server.port) as s:
                c = Client(s, "a.c", "int a;\nint z;\n")
                c.change(11, 12, "b", version=7)
                s.send_json({"type": "edit.predict", "id": "e", "path": "a.c", "version": 7,
                             "position": c.place(10)})
                event = s.read_json()
                assert event["type"] == "edit.prediction", event
                assert event["edits"] == [{"start_line": 1, "end_line": 2, "text": "int x;\n"}]
        with report.check("the text as it was opened, by its name", server):
            with RawSocket(server.port) as s:
                c = Client(s, "a.c", "int b;\nint z;\n")
                Client(s, "opened", "int opened;\nint z;\n")
                ask = {"type": "edit.predict", "id": "e", "path": "a.c", "position": c.place(4)}
                opened = {**ask, "original_document": "opened"}
                for message, edits in ((opened, 1), ({**ask, "original": "x\n"}, 0), (opened, 1)):
                    s.send_json(message)
                    event = s.read_json()
                    assert event["type"] == "edit.prediction", event
                    assert len(event["edits"]) == edits, (message, event)
                refused(s, {**ask, "original_document": "none"}, "document_not_open",
                        "original_document")
                refused(s, {**ask, "original_document": 7}, "invalid_value", "original_document")


def main():
    report = Report("documents")
    with Server() as server:
        check_texts(report, server)
        check_refusals(report, server)
        with report.check("nothing is left over, and it shuts down cleanly", server):
            wait_for(lambda: server.running() == 0)
            assert server.stop() == 0
    check_edits(report)
    report.end()


main()
