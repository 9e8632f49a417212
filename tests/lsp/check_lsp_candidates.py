"""check_lsp_candidates.py - several answers to one question: different, the first as it was, kept
while one types along, never stale, and counted."""

import json
import os
import random
import socket
import subprocess
import time

from client import STATE
from kit import CERIUM, CODE, begin, blocks, check, end
from proxy import Proxy

LINE = CODE + "    def sub(self, oth"
BODY = CODE + "    def sub(self, other):\n        return "


def texts(items):
    return [item["insertText"] for item in items]


def differ(items):
    return len({text.strip() for text in texts(items)}) == len(items)


def several_at(c, uri, at, n=2, kind=1, tries=600):
    """At least n items; those that are too late for an answer are in a later one."""
    for _ in range(tries):
        items = c.inline(uri, at, kind)
        if len(items) >= n:
            break
        time.sleep(0.1)
    return items


def check_several(name, c):
    """As an editor cycles: asked unasked, then by hand, again, and after typing along."""
    uri = f"file:///work/{name}.py"
    c.open(uri, LINE)
    at = len(LINE)
    shown = texts(c.inline(uri, at))
    check(f"{name}: unasked there is one", len(shown) == 1, shown)
    items = several_at(c, uri, at, 3)
    several = texts(items)
    check(f"{name}: asked by hand there are three", len(several) == 3, several)
    check(f"{name}: the first is what is shown", several[:1] == shown, (shown, several))
    check(f"{name}: they differ", differ(items), several)
    check(f"{name}: a line gets lines", not any("\n" in text for text in several), several)
    again = texts(c.inline(uri, at, 1))
    check(f"{name}: asked again they are the same", again == several, (several, again))
    # Those that go on as one types stay, in their order, and the others go.
    other = several[1]
    n = len(os.path.commonprefix(several[:2])) + 1
    c.change(uri, at, at, other[:n])
    rest = texts(c.inline(uri, at + n))
    check(f"{name}: typed away from the first, the second goes on", rest == [other[n:]],
          (several, rest))
    c.change(uri, at, at + n, "")
    check(f"{name}: undone, the first is back", texts(c.inline(uri, at)) == shown)
    check(f"{name}: with the others", texts(c.inline(uri, at, 1)) == several)
    word = len(other) - 2
    c.change(uri, at, at, other[:word])
    check(f"{name}: a part of the second taken, its rest is there",
          texts(c.inline(uri, at + word)) == [other[word:]])
    return uri


def test_candidates():
    c = begin(options={"minConfidence": 0})
    c.ready()
    check_several("here", c)
    uri = "file:///work/body.py"
    c.open(uri, CODE + "    def sub(self, other):")
    at = len(c.texts[uri])
    items = several_at(c, uri, at)
    check("blocks get blocks", len(items) > 1 and differ(items) and
          all("\n" in text for text in texts(items)), texts(items))
    one = begin(options={"minConfidence": 0, "candidates": 1})
    one.ready()
    one.open(uri, LINE)
    check("as many as the user wants", len(one.inline(uri, len(LINE), 1)) == 1)
    end("one candidate", one)
    five = begin(options={"minConfidence": 0, "candidates": 9, "alwaysSeveral": True})
    five.ready()
    five.open(uri, BODY)
    items = several_at(five, uri, len(BODY), kind=2)
    check("up to five, and unasked where an editor never asks", 3 < len(items) < 6, texts(items))
    end("five candidates", five)
    end("candidates", c)


def test_candidates_judged():
    """What the watchdog holds back is in no candidate."""
    c = begin(options={"minConfidence": 0, "candidates": 5})
    c.ready()
    starts = ["h = hashlib.", "subprocess.call(", "cursor.execute(\"SELECT * ", "yaml.load(",
              "h = hashlib.new('", "os.system(", "requests.get(url, "]
    weak, offered = [], 0
    for i, start in enumerate(starts):
        uri = f"file:///w/several{i}.py"
        text = "import hashlib, os, yaml, requests, subprocess\n\n\ndef f(cursor, url, name):\n" \
               f"    {start}"
        c.open(uri, text)
        for item in several_at(c, uri, len(text), tries=3):
            offered += 1
            if blocks(text, item["insertText"]):
                weak.append((start, item["insertText"]))
    check("no candidate is weak", offered > len(starts) and not weak, (offered, weak))
    end("judged candidates", c)


def test_candidates_cancel():
    c = begin(options={"minConfidence": 0})
    c.ready()
    uri = "file:///work/cancel_several.py"
    for i in range(40):
        c.open(uri, BODY + "Point(" * (i % 3))
        at = len(c.texts[uri])
        if i % 2:
            c.inline(uri, at)
        one = c.request("textDocument/inlineCompletion", c.inline_params(uri, at, 1))
        if i % 4 == 0:
            time.sleep(0.003 * (i % 10))
        if i % 3 == 0:
            c.notify("$/cancelRequest", {"id": one})
        elif i % 3 == 1:
            c.change(uri, at, at, "x")
        else:
            c.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        answer = c.wait(one)
        good = "result" in answer or (i % 3 == 0 and answer["error"]["code"] == -32800)
        if not good:
            check("canceled, or answered", False, answer)
    c.open(uri, BODY)
    check("and several still come", len(several_at(c, uri, len(BODY), 3)) == 3)
    end("cancel candidates", c)


def test_candidates_stale():
    """Random edits against questions of both kinds: every item is for the text of its question,
    fits there, and differs from the others; the first stays."""
    rng = random.Random(31)
    c = begin(options={"minConfidence": 0, "candidates": 4})
    c.ready()
    uri = "file:///work/stale_several.py"
    c.open(uri, CODE)
    at, asked, sent = len(CODE), {}, 0
    last, faults, several = None, [], 0

    def take(limit):
        while c.read(limit):
            pass

    for _ in range(int(os.environ.get("BURSTS", "400"))):
        roll = rng.random()
        if last and roll < 0.3:  # a part of one of the candidates, as an editor accepts it
            text = rng.choice(last)
            text = text[:rng.randrange(1, len(text) + 1)]
        elif roll < 0.5 and at > len(CODE):
            c.change(uri, at - 1, at, "")
            at -= 1
            text = ""
        else:
            text = rng.choice(["self.", "x", " ", "(", "return ", "other", ")\n", "= ", "    "])
        if text:
            c.change(uri, at, at, text)
            at += len(text)
        if len(c.texts[uri]) > len(CODE) + 1500:
            c.change(uri, len(CODE), at, "")
            at = len(CODE)
        last = None
        kind = rng.choice([1, 1, 2])
        if rng.random() < 0.9:
            id_ = c.request("textDocument/inlineCompletion", c.inline_params(uri, at, kind))
            asked[id_] = (c.versions[uri], c.position(c.texts[uri], at), kind)
            sent += 1
            if rng.random() < 0.5:
                answer = c.wait(id_)
                if answer.get("result"):
                    last = texts(answer["result"]["items"])
            elif rng.random() < 0.2:
                c.notify("$/cancelRequest", {"id": id_})
        take(0)
    for id_, (version, place, kind) in asked.items():
        answer = c.wait(id_)
        if not answer.get("result"):
            continue
        items = answer["result"]["items"]
        several += len(items) > 1
        if kind == 2 and len(items) > 1 or len(items) > 4 or not differ(items):
            faults.append((id_, kind, texts(items)))
        for item in items:
            if item["command"]["arguments"][3] != version or item["range"]["start"] != place:
                faults.append((id_, version, item))
    counts = {}
    for m in c.log:
        if "id" in m and "method" not in m and m["id"] in asked:
            counts[m["id"]] = counts.get(m["id"], 0) + 1
    check("each is answered once", set(counts) == set(asked) and set(counts.values()) == {1})
    check("nothing is stale, twice, or too much", several > 0 and not faults,
          (several, faults[:2]))
    end("stale candidates", c)


def test_candidates_counted():
    """Which one was taken; and that of the counts alone."""
    path = os.path.join(STATE, "cerium", "completions.json")

    def chosen():
        try:
            with open(path) as f:
                rows = json.load(f)["completions"]
        except FileNotFoundError:
            return [0] * 5
        return [sum(n) for n in zip(*[row["chosen"] for row in rows])] or [0] * 5

    before = chosen()
    c = begin(options={"minConfidence": 0})
    c.ready()
    for i, (which, part) in enumerate([(0, 1), (1, 1), (1, 1), (2, 1), (1, 0.6)]):
        uri = f"file:///work/count{i}.py"
        c.open(uri, LINE)
        text = texts(several_at(c, uri, len(LINE), 3))[which]
        n = int(len(text) * part)
        c.change(uri, len(LINE), len(LINE), text[:n])
        c.change(uri, len(LINE) + n, len(LINE) + n, "\n\n")
    end("counted candidates", c)
    more = [a - b for a, b in zip(chosen(), before)]
    check("which one was taken is counted", more == [1, 3, 1, 0, 0], more)
    table = subprocess.run([CERIUM, "usage", "--completions"], capture_output=True, text=True,
                           env={**os.environ, "XDG_STATE_HOME": STATE}).stdout
    check("and shown", "1/3/1" in table or before != [0] * 5, table)


def test_candidates_server():
    """The same of a server, over its socket and by POST."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    server = subprocess.Popen([CERIUM, "serve", "--port", str(port)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    for _ in range(1200):
        with socket.socket() as sock:
            if not sock.connect_ex(("127.0.0.1", port)):
                break
        time.sleep(0.1)
    for name, has_sockets in (("socket", True), ("post", False)):
        between = Proxy(port, has_sockets)
        c = begin(options={"minConfidence": 0},
                  args=("--server", f"http://127.0.0.1:{between.port}"))
        c.ready()
        c.open("file:///work/first.py", CODE)
        for _ in range(600):  # until its socket is open, POST serves
            c.change("file:///work/first.py", len(CODE), len(CODE), "x")
            c.inline("file:///work/first.py", len(CODE) + 1, 1)
            if not has_sockets or between.messages:
                break
            time.sleep(0.1)
        between.posts.clear()
        between.messages.clear()
        check_several(name, c)
        several = [m for m in between.messages if m.get("candidates")]
        check(f"{name}: several are one request, {'over' if has_sockets else 'without'} a socket",
              (len(several) > 0) == has_sockets and ("/infill" in between.posts) != has_sockets,
              (several, between.posts))
        end(f"candidates by {name}", c)
    server.kill()
    server.wait()
