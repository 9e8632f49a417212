"""check_lsp_completions.py - completions of `cerium lsp`: frames, typing, silence, what is stale
or canceled."""

import os
import random
import subprocess
import time

from client import Client
from kit import CERIUM, CODE, begin, blocks, check, end, is_sanitized, seen, type_text

# ---- frames, and the life of a session ----

def test_life():
    c = Client(program=CERIUM)
    seen.append(c)
    check("before initialize a request is refused",
          c.wait(c.request("textDocument/inlineCompletion", {}))["error"]["code"] == -32002)
    c.notify("textDocument/didOpen", {})
    result = c.initialize()
    check("silent clients count in UTF-16",
          result["capabilities"]["positionEncoding"] == "utf-16")
    check("a second initialize is refused",
          c.wait(c.request("initialize", {}))["error"]["code"] == -32600)
    check("an unknown method", c.wait(c.request("a/b", {}))["error"]["code"] == -32601)
    check("an id that is a string comes back",
          c.wait(c.request("cerium/status", None, "x-1"))["id"] == "x-1")
    for body, code in ((b"{", -32700), (b"[]", -32600), (b'{"id":{},"method":"x"}', -32600),
                       (b"[" * 300, -32600), (b'{"a":' * 300, -32700),
                       (b'{"jsonrpc":"2.0"}', -32600)):
        c.send_bytes(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        message = c.read()
        check(f"{body[:12]}: refused", message["error"]["code"] == code and message["id"] is None,
              message)
    # A body that is too long is passed over, and so are heads that say nothing.
    c.send_bytes(b"Content-Length: 40000000\r\n\r\n")
    for _ in range(40):
        c.send_bytes(b"x" * 1000000)
    c.send_bytes(b"Nothing: 1\r\n\r\n")
    c.send_bytes(b"h" * 9000 + b"\r\n\r\n")
    check("the session lives on", c.ask("cerium/status", None) is not None)
    # Any cuts of the bytes.
    body = b'{"jsonrpc":"2.0","id":77,"method":"cerium/status"}'
    for byte in b"content-length:%d\r\nContent-Type: x\r\n\r\n%s" % (len(body), body):
        c.send_bytes(bytes([byte]))
    check("a byte at a time", c.wait(77)["result"] is not None)
    check("notifications that nobody knows are passed over", c.notify("$/x", {}) is None)
    end("life", c)
    late = Client(program=CERIUM)
    late.initialize()
    late.process.stdin.close()
    check("the end of input ends it with status 1", late.process.wait(120) == 1)
    orphan = subprocess.Popen(["sleep", "60"])
    c = begin(processId=orphan.pid)
    orphan.kill()
    orphan.wait()
    check("it goes with the editor's process", c.process.wait(120) == 1)


# ---- completions ----

def test_typing():
    c = begin(options={"minConfidence": 0})
    c.ready()
    uri = "file:///work/point.py"
    c.open(uri, CODE)
    shown, changed, wrong = 0, [], 0
    before = None
    for at, item in type_text(c, uri, len(CODE), "    def sub(self, other):\n        ret"):
        if item:
            shown += 1
            rest = item["insertText"]
            place = c.position(c.texts[uri], at)
            wrong += item["range"] != {"start": place, "end": place}
            key = c.texts[uri][at - 1]
            if before and before.startswith(key) and len(before) > 1:
                if not rest.startswith(before[1:]):
                    changed.append((before, key, rest))
            before = rest
        else:
            before = None
    check("typing is followed", shown > 10, shown)
    check("what is typed along does not change", not changed, changed)
    check("ranges are at the caret", wrong == 0, wrong)
    # What is taken is followed by more.
    at = len(c.texts[uri])
    items = c.inline(uri, at, 1)
    check("asked by hand there is something", bool(items))
    if items:
        c.change(uri, at, at, items[0]["insertText"])
        command = items[0]["command"]
        c.ask("workspace/executeCommand", {"command": command["command"],
                                           "arguments": command["arguments"]})
        status = c.ask("cerium/status", None)
        check("what was taken is counted", status["counts"]["accepted"] == 1 and
              status["counts"]["accepted_characters"] == len(items[0]["insertText"]), status)
        # Undo: it is there again without a model.
        made = status["counts"]["generated"]
        end_ = at + len(items[0]["insertText"])
        c.change(uri, at, end_, "")
        again = c.inline(uri, at, 1)
        now = c.ask("cerium/status", None)["counts"]["generated"]
        check("undone, it is proposed again", again and
              again[0]["insertText"] == items[0]["insertText"], again)
        check("and nobody was asked for it", now - made <= 1, now - made)
    end("typing", c)


def test_crlf():
    c = begin(options={"minConfidence": 0, "maxLines": 4})
    c.ready()
    uri = "file:///work/crlf.py"
    text = (CODE + "    def sub(self, other):").replace("\n", "\r\n")
    c.open(uri, text)
    items = c.inline(uri, len(text), 1)
    inserted = items[0]["insertText"] if items else ""
    check("CR LF files get CR LF", "\r\n" in inserted and
          "\n" not in inserted.replace("\r\n", ""), repr(inserted))
    end("crlf", c)


def test_silence():
    c = begin(options={"minConfidence": 0, "languages": {"go": False}, "exclude": ["*.gen.py"]})
    c.ready()
    cases = 0
    spoke = []

    def quiet(name, text, at, uri="file:///w/a.py", language="python", kind=2, **context):
        nonlocal cases
        cases += 1
        c.open(uri, text, language)
        items = c.inline(uri, at, kind, **context)
        if items:
            spoke.append((name, items))

    words = ["alpha", "beta", "gamma1", "delta_x", "ébc", "中文字"]
    for i in range(150):
        word = words[i % len(words)]
        cut = 1 + i % (len(word) - 1)
        text = f"{CODE}value = {word}\n"
        quiet("word", text, len(text) - 1 - len(word) + cut)
    for i in range(150):
        behind = ["+ other_value * 2", "if ready(now) else 3", "for x in range(10)"][i % 3]
        text = f"{CODE}v{i} = {behind}\n"
        quiet("behind", text, text.index(" = " + behind) + 3)
    for i in range(60):
        text = f"{CODE}name = 'some text {i} and"
        quiet("string", text, len(text))
        text = f"{CODE}x = {i}  # a comment that says"
        quiet("comment", text, len(text))
    for i in range(20):
        text = ";".join(f"var a{k}=function(b){{return b*{k}+{i}}}" for k in range(200)) + "\n"
        quiet("minified", text, len(text), f"file:///w/{i}.js", "javascript", 1)
    for i in range(60):
        quiet("off", "package main\n\nfunc main() {\n", 28, "file:///w/a.go", "go", 1)
        quiet("excluded", CODE, len(CODE), f"file:///w/a{i}.gen.py")
    quiet("large", "x = 1\n" * 60000, 6)
    check(f"silence in {cases} cases", cases >= 500 and not spoke, spoke[:2])
    c.ask("workspace/executeCommand", {"command": "cerium.server.snooze", "arguments": [5]})
    c.open("file:///w/s.py", CODE + "    def sub(self, ")
    check("snoozed", c.inline("file:///w/s.py", len(CODE) + 18) == [])
    c.ask("workspace/executeCommand", {"command": "cerium.server.snooze", "arguments": [0]})
    check("awake", c.inline("file:///w/s.py", len(CODE) + 18) != [])
    end("silence", c)


def test_popup():
    c = begin(options={"minConfidence": 0})
    c.ready()
    uri = "file:///work/popup.py"
    text = CODE + "    def sub(self, oth"
    c.open(uri, text)
    at = len(text)
    range_ = {"start": c.position(text, at - 3), "end": c.position(text, at)}
    items = c.inline(uri, at, selectedCompletionInfo={"range": range_, "text": "other"})
    check("the popup's choice is gone on from", items and
          items[0]["insertText"].startswith("other") and len(items[0]["insertText"]) > 5 and
          items[0]["range"] == range_, items)
    items = c.inline(uri, at, selectedCompletionInfo={"range": range_, "text": "xyz"})
    check("what does not fit the text is not", items == [], items)
    end("popup", c)


def test_stale():
    """Bursts of keys, questions and cancels: each is answered once, none for an older text."""
    rng = random.Random(5)
    c = begin(options={"minConfidence": 0})
    c.ready()
    uri = "file:///work/stale.py"
    c.open(uri, CODE)
    asked, canceled, at = {}, set(), len(CODE)
    version_of, sent = {}, 0
    line = "    def sub(self, other):\n        return Point(self.x - other.x, self.y)\n\n"
    for i in range(int(os.environ.get("BURSTS", "3000"))):
        burst = rng.randrange(1, 4)
        for _ in range(burst):
            if rng.random() < 0.1 and at > len(CODE):
                c.change(uri, at - 1, at, "")
                at -= 1
            else:
                c.change(uri, at, at, line[at % len(line)])
                at += 1
        if rng.random() < 0.8:
            id_ = c.request("textDocument/inlineCompletion", c.inline_params(uri, at))
            asked[id_] = (c.versions[uri], c.texts[uri], at)
            sent += 1
            if rng.random() < 0.15:
                c.notify("$/cancelRequest", {"id": id_})
                canceled.add(id_)
        if rng.random() < 0.05:
            time.sleep(0.02)
        while c.read(0):
            pass
    for id_ in asked:
        c.wait(id_)
    # An item has the version of the text that it was made for: that of its question.
    counts, stale, misplaced = {}, 0, 0
    for m in c.log:
        if "id" in m and "method" not in m and m["id"] in asked:
            counts[m["id"]] = counts.get(m["id"], 0) + 1
            if m.get("result"):
                version, text, place = asked[m["id"]]
                item = m["result"]["items"][0]
                misplaced += item["range"]["start"] != c.position(text, place)
                stale += item["command"]["arguments"][3] != version
    status = c.ask("cerium/status", None)["counts"]
    check("each request is answered once", set(counts) == set(asked) and
          set(counts.values()) == {1}, len(asked) - len(counts))
    check("no item is for another text", stale == 0 and misplaced == 0,
          (stale, misplaced))
    check("the counts add up", status["requests"] == sent and
          status["answers"] + status["canceled"] == sent, status)
    codes = {m["error"]["code"] for m in c.log if "error" in m}
    check("canceled ones say so", codes <= {-32800}, codes)
    end("stale", c)


def test_cancel():
    c = begin(options={"delay": 10000})
    c.ready()
    uri = "file:///work/cancel.py"
    c.open(uri, CODE)
    at = len(CODE)
    c.change(uri, at, at, "    def sub(self, ")
    at = len(c.texts[uri])
    one = c.request("textDocument/inlineCompletion", c.inline_params(uri, at))
    c.notify("$/cancelRequest", {"id": one})
    check("a canceled question", c.wait(one)["error"]["code"] == -32800)
    one = c.request("textDocument/inlineCompletion", c.inline_params(uri, at))
    two = c.request("textDocument/inlineCompletion", c.inline_params(uri, at))
    check("a newer one supersedes, with null", c.wait(one)["result"] is None)
    c.change(uri, at, at, "o")
    check("and so does a change", c.wait(two)["result"] is None)
    three = c.request("textDocument/inlineCompletion", c.inline_params(uri, at + 1))
    c.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    check("and the document's end", c.wait(three)["result"] is None)
    check("a document that is not open",
          c.wait(c.request("textDocument/inlineCompletion",
                           c.inline_params(uri, at)))["error"]["code"] == -32602)
    end("cancel", c)


def test_idle():
    c = begin()
    c.ready()
    for i in range(10):
        c.open(f"file:///w/{i}.py", CODE)
    c.change("file:///w/0.py", len(CODE), len(CODE), "    def sub(self, other):")
    c.inline("file:///w/0.py", len(CODE) + 25)
    until = time.monotonic() + 60
    switches = None
    while switches != c.switches() and time.monotonic() < until:  # what it prepares has an end
        switches = c.switches()
        time.sleep(2.5)
    while c.read(0):
        pass
    cpu, switches = c.cpu_ms(), c.switches()
    time.sleep(3)
    check("no processor time while nobody types", c.cpu_ms() == cpu, c.cpu_ms() - cpu)
    check("and nothing wakes up", c.switches() == switches, c.switches() - switches)
    end("idle", c)


def test_memory():
    if is_sanitized():
        print("skipped: memory: the sanitizer has its own")
        return
    c = begin()
    c.ready()
    c.open("file:///m/a.py", CODE)
    c.inline("file:///m/a.py", len(CODE), 1)
    with open(f"/proc/{c.pid}/status") as f:
        kb = next(int(line.split()[1]) for line in f if line.startswith("RssAnon"))
    # 44 to 46 MB after several candidates, 7 of them weights that are packed anew.
    check("memory that is no file's", kb < 50000, kb)
    end("memory", c)


def test_weak_lines():
    """What is shown has been judged: no item holds what `cerium scan` would block."""
    c = begin(options={"minConfidence": 0})
    c.ready()
    starts = ["h = hashlib.", "import subprocess\nsubprocess.call(", "cursor.execute(\"SELECT * ",
              "requests.get(url, ", "yaml.load(", "h = hashlib.md", "os.system("]
    weak, shown = [], 0
    for i, start in enumerate(starts * 3):
        uri = f"file:///w/weak{i}.py"
        text = f"import hashlib, os, yaml, requests\n\n\ndef f(cursor, url, name):\n    {start}"
        c.open(uri, text)
        for item in c.inline(uri, len(text), 1):
            shown += 1
            if blocks(text, item["insertText"]):
                weak.append((start, item["insertText"]))
    check("weak lines are not shown", shown > 0 and not weak, (shown, weak))
    end("weak lines", c)
