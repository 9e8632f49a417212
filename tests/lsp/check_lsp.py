"""check_lsp.py - `cerium lsp` over its pipes: python3 check_lsp.py ./cerium

Every message that the server writes is read by the types of lsprotocol, where that is installed."""

import json
import os
import random
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(__file__))
from client import Client  # noqa: E402
from proxy import Proxy  # noqa: E402

CERIUM = sys.argv[1]
PULLS = {"textDocument": {"diagnostic": {"dynamicRegistration": True}}}
EDITS = {"workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True}}}
CODE = '''import hashlib


class Point:
    def __init__(self, x, y):
        self.x = x
        self.y = y

    def add(self, other):
        return Point(self.x + other.x, self.y + other.y)

'''
passed, failed, seen = 0, 0, []


def check(name, good, what=""):
    global passed, failed
    if good:
        passed += 1
    else:
        failed += 1
        print(f"  FAIL {name}: {what}")


def begin(capabilities=None, options=None, args=(), env=None, **more):
    c = Client(*args, program=CERIUM, env=env)
    c.initialize(capabilities, options, **more)
    seen.append(c)
    return c


def end(name, c):
    status = c.shutdown()
    check(f"{name}: exit status 0 behind shutdown", status == 0, status)
    c.process.stdin.close()


# ---- what is sent is what the protocol says ----

def test_types():
    try:
        from lsprotocol import converters, types
    except ImportError:
        return
    converter = converters.get_converter()
    responses = {
        "initialize": types.InitializeResponse, "shutdown": types.ShutdownResponse,
        "textDocument/inlineCompletion": types.InlineCompletionResponse,
        "textDocument/diagnostic": types.DocumentDiagnosticResponse,
        "textDocument/codeAction": types.CodeActionResponse,
        "workspace/executeCommand": types.ExecuteCommandResponse}
    others = {
        "textDocument/publishDiagnostics": types.PublishDiagnosticsNotification,
        "window/showMessage": types.ShowMessageNotification,
        "workspace/configuration": types.ConfigurationRequest,
        "client/registerCapability": types.RegistrationRequest,
        "workspace/diagnostic/refresh": types.DiagnosticRefreshRequest,
        "workspace/applyEdit": types.ApplyWorkspaceEditRequest,
        "window/workDoneProgress/create": types.WorkDoneProgressCreateRequest,
        "$/progress": types.ProgressNotification,
        "window/showDocument": types.ShowDocumentRequest}
    n, unknown, faults = 0, set(), []
    for c in seen:
        for m in c.log:
            kind = others.get(m.get("method")) if "method" in m else responses.get(
                c.asked.get(json.dumps(m["id"])))
            if "method" in m and kind is None:
                unknown.add(m["method"])
            if kind is None:
                continue
            try:
                if "error" in m:
                    m = {k: v for k, v in m.items() if k != "error"}
                    kind = types.ResponseErrorMessage if hasattr(
                        types, "ResponseErrorMessage") else None
                if kind:
                    converter.structure(m, kind)
                    n += 1
            except Exception as e:  # whatever a type refuses is a fault of ours
                faults.append((type(e).__name__, str(e)[:200], json.dumps(m)[:300]))
    check("every message is of the protocol's types", n > 100 and not faults, (n, faults[:3]))
    check("no method that nobody knows", unknown <= {"didChangeStatus"}, unknown)


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

def type_text(c, uri, at, text):
    """Type, ask behind each key; yields (what is behind the caret, item or None)."""
    for key in text:
        c.change(uri, at, at, key)
        at += 1
        items = c.inline(uri, at)
        yield at, items[0] if items else None


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
    time.sleep(2.5)
    while c.read(0):
        pass
    cpu, switches = c.cpu_ms(), c.switches()
    time.sleep(3)
    check("no processor time while nobody types", c.cpu_ms() == cpu, c.cpu_ms() - cpu)
    check("and nothing wakes up", c.switches() == switches, c.switches() - switches)
    end("idle", c)


def test_memory():
    with open(CERIUM, "rb") as f:
        if b"__asan_init" in f.read():
            print("skipped: memory: the sanitizer has its own")
            return
    c = begin()
    c.ready()
    c.open("file:///m/a.py", CODE)
    c.inline("file:///m/a.py", len(CODE), 1)
    with open(f"/proc/{c.pid}/status") as f:
        kb = next(int(line.split()[1]) for line in f if line.startswith("RssAnon"))
    # 40 MB, 7 of weights that are packed anew, and some for huge pages.
    check("memory that is no file's", kb < 56000, kb)
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
            whole = text + item["insertText"]
            with tempfile.NamedTemporaryFile("w", suffix=".py") as f:
                f.write(whole + "\n")
                f.flush()
                done = subprocess.run([CERIUM, "scan", "--block-only", "--json", f.name],
                                      capture_output=True, text=True)
            lines = [json.loads(line)["line"] for line in done.stdout.splitlines()]
            if any(n > text.count("\n") for n in lines) and done.returncode == 1:
                weak.append((start, item["insertText"]))
    check("weak lines are not shown", shown > 0 and not weak, (shown, weak))
    end("weak lines", c)


# ---- diagnostics ----

WEAK = {
    "a.py": "import hashlib, subprocess\n\n\ndef f(name, db):\n    é = '😀'; "
            "h = hashlib.md5(name)\n    subprocess.call('ls ' + name, shell=True)\n"
            "    db.execute('SELECT * FROM t WHERE a = ' + name)\n    return h, é\n",
    "b.js": "function f(req, res) {\n  /* 😀 */ eval(req.query.x);\n"
            "  document.write(req.query.y);\n}\n",
    "c.c": "#include <string.h>\nvoid f(char *a, const char *b)\n{\n    strcpy(a, b);\n}\n",
    "d.py": CODE,
}


def scan(text, name):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, name)
        with open(path, "w") as f:
            f.write(text)
        done = subprocess.run([CERIUM, "scan", "--json", path], capture_output=True, text=True)
        return [json.loads(line) for line in done.stdout.splitlines()]


def test_diagnostics():
    pull, push = begin({**PULLS, **EDITS}), begin(dict(EDITS), encoding="utf-8")
    for name, text in WEAK.items():
        uri = f"file:///src/{name}"
        language = {"py": "python", "js": "javascript", "c": "c"}[name.split(".")[1]]
        pull.open(uri, text, language)
        push.open(uri, text, language)
        report = pull.ask("textDocument/diagnostic", {"textDocument": {"uri": uri}})
        sent = push.wait_note("textDocument/publishDiagnostics")["params"]
        wanted = sorted((f["line"], f["rule"]) for f in scan(text, name))
        got = sorted((d["range"]["start"]["line"] + 1, d["code"]) for d in report["items"])
        check(f"{name}: the findings of `cerium scan`", got == wanted, (got, wanted))
        check(f"{name}: pushed, the same", len(sent["diagnostics"]) == len(got) and
              sent["version"] == 1, sent)
        lines = text.split("\n")
        for a, b in zip(report["items"], sent["diagnostics"]):
            r, q = a["range"], b["range"]
            line16 = lines[r["start"]["line"]].encode("utf-16-le")
            line8 = lines[q["start"]["line"]].encode()
            if r["start"]["line"] != r["end"]["line"]:
                continue
            one = line16[2 * r["start"]["character"]:2 * r["end"]["character"]].decode("utf-16-le")
            two = line8[q["start"]["character"]:q["end"]["character"]].decode()
            check(f"{name}: both ranges have the same text", one == two and one.strip(),
                  (one, two))
        again = pull.ask("textDocument/diagnostic", {
            "textDocument": {"uri": uri}, "previousResultId": report["resultId"]})
        check(f"{name}: unchanged", again == {"kind": "unchanged",
                                              "resultId": report["resultId"]}, again)
        actions(pull, uri, name, text, report["items"])
    uri = "file:///src/d.py"
    at = len(CODE)
    push.change(uri, at, at, "        h = hashlib.md5(other)")
    told = []
    while len(told) < 5 and not (told and told[-1]):
        told.append(push.wait_note("textDocument/publishDiagnostics")["params"]["diagnostics"])
    check("the line that is typed is told when it rests", len(told[-1]) == 1, told)
    push.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    check("a closed document has none", push.wait_note(
        "textDocument/publishDiagnostics")["params"]["diagnostics"] == [])
    end("pull", pull)
    end("push", push)
    # Emacs opens with version 0, and types before the rules are loaded.
    uri, weak = "file:///src/w.py", "import hashlib\nh = hashlib.md5(b'')\n"
    for name, typed in (("version 0", ""), ("typed while the rules are loaded", "\n")):
        c = begin(dict(EDITS))
        c.open(uri, weak, version=0)
        if typed:
            c.change(uri, 0, 0, typed)
        c.ask("cerium/status", None)
        told = []
        while len(told) < 5 and not (told and told[-1]):
            told.append(c.wait_note("textDocument/publishDiagnostics")["params"]["diagnostics"])
        check(f"pushed, {name}", len(told[-1]) == 1, told)
        end(f"pushed, {name}", c)


def test_missing_rules():
    """Without the rules a pull is answered, and one message says why there are no findings."""
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/python.yaml", "w", encoding="utf-8") as f:
            f.write("- no: rule\n")
        c = begin({**PULLS}, args=("--rules", folder))
        c.open("file:///src/w.py", "import hashlib\nh = hashlib.md5(b'')\n")
        report = c.ask("textDocument/diagnostic", {"textDocument": {"uri": "file:///src/w.py"}})
        check("no rules: the pull is answered", report["items"] == [], report)
        note = c.wait_note("window/showMessage")["params"]["message"]
        check("and a message names them", "python.yaml" in note, note)
        end("no rules", c)


ENDINGS = {"python": "py", "javascript": "js", "typescript": "ts", "ruby": "rb", "rust": "rs",
           "bash": "sh", "shell": "sh", "cpp": "cpp", "csharp": "cs", "kotlin": "kt"}


def test_scan():
    """Diagnostics of some 200 samples are the findings of `cerium scan`."""
    with open("tests/guard/idioms.jsonl", encoding="utf-8") as f:
        samples = [json.loads(line) for line in f][::5]
    c = begin(dict(PULLS))
    with tempfile.TemporaryDirectory() as folder:
        for i, sample in enumerate(samples):
            name = f"{i}.{ENDINGS.get(sample['language'], sample['language'])}"
            sample["path"] = os.path.join(folder, name)
            with open(sample["path"], "w", encoding="utf-8") as f:
                f.write(sample["code"])
        done = subprocess.run([CERIUM, "scan", "--json", folder], capture_output=True, text=True)
        wanted = {}
        for finding in map(json.loads, done.stdout.splitlines()):
            wanted.setdefault(os.path.basename(finding["file"]), []).append(
                (finding["line"], finding["rule"]))
        differ, total = [], 0
        for sample in samples:
            uri, name = f"file://{sample['path']}", os.path.basename(sample["path"])
            c.open(uri, sample["code"], sample["language"])
            report = c.ask("textDocument/diagnostic", {"textDocument": {"uri": uri}})
            got = sorted((d["range"]["start"]["line"] + 1, d["code"]) for d in report["items"])
            c.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
            total += len(got)
            if got != sorted(wanted.get(name, [])):
                differ.append((name, got, wanted.get(name)))
    check("the findings of `cerium scan` in many files", len(samples) > 200 and total > 100 and
          not differ, (len(samples), total, differ[:3]))
    end("scan", c)


def apply_edits(c, text, edits):
    places = []
    for e in edits:
        lines = text.split("\n")
        ends = []
        for p in (e["range"]["start"], e["range"]["end"]):
            at = sum(len(line) + 1 for line in lines[:p["line"]])
            if p["line"] < len(lines):
                line = lines[p["line"]].encode("utf-16-le")
                at += len(line[:2 * p["character"]].decode("utf-16-le"))
            ends.append(min(at, len(text)))
        places.append((ends[0], ends[1], e["newText"]))
    for a, b, new in sorted(places, reverse=True):
        text = text[:a] + new + text[b:]
    return text


def actions(c, uri, name, text, items):
    for d in items:
        list_ = c.ask("textDocument/codeAction", {
            "textDocument": {"uri": uri}, "range": d["range"],
            "context": {"diagnostics": [d], "only": ["quickfix"]}})
        for a in list_:
            if a["diagnostics"][0]["code"] != d["code"]:
                continue
            change = a["edit"]["documentChanges"][0]
            check("an edit is for a version", change["textDocument"]["version"] ==
                  c.versions[uri])
            fixed = apply_edits(c, text, change["edits"])
            rules = [f["rule"] for f in scan(fixed, name)]
            n = sum(1 for one in items if one["code"] == d["code"])
            check(f"{name}: {a['title']}: the finding is gone", rules.count(d["code"]) == n - 1,
                  (fixed, rules))
            if name.endswith(".py"):
                try:
                    compile(fixed, name, "exec")
                except SyntaxError as e:
                    check(f"{name}: {a['title']}: it is Python", False, (e, fixed))


def test_positions():
    """Random edits around one weak line: the finding's range says whether the texts agree."""
    rng = random.Random(9)
    c = begin(dict(PULLS))
    uri = "file:///src/edits.py"
    marker = "hashlib.md5(data)"
    text = "import hashlib\n# 😀 é\nh = " + marker + "\n# 中文\r\n# end\n"
    c.open(uri, text)
    pieces = ["a", "é", "😀", "中", "\n# ", "\r\n# ", "x y", "👨‍👩‍👧", "e\u0301",
              "# ", ""]
    wrong, n = [], 0
    for i in range(600):
        text = c.texts[uri]
        at = text.index("h = " + marker)
        stop = at + 4 + len(marker)
        edits = []
        for _ in range(rng.randrange(1, 4)):
            # Only within comment lines, so that the weak line stays what it is.
            where = rng.choice([(text.index("# "), at - 1), (stop + 3, len(text) - 1)])
            a = rng.randrange(where[0] + 2, max(where[0] + 3, where[1]))
            b = min(a + rng.choice([0, 0, 1, 2]), where[1])
            if "\n" in text[a:b] or "\r" in text[a:b] or text[a - 1] == "\r":
                b = a
            if text[a - 1:a + 1] == "\r\n" or text[a:a + 2] == "\r\n" and b > a:
                continue
            c.change(uri, a, max(a, b), rng.choice(pieces))
            text = c.texts[uri]
            at = text.index("h = " + marker)
            stop = at + 4 + len(marker)
        if i % 10:
            continue
        time.sleep(0)
        report = c.ask("textDocument/diagnostic", {"textDocument": {"uri": uri}})
        n += 1
        if report["kind"] != "full" or not report["items"]:
            continue
        got = report["items"][0]["range"]
        place = text.index("hashlib.md5")
        want = {"start": c.position(text, place), "end": c.position(text, place + len(marker))}
        if got != want:
            wrong.append((got, want))
    check(f"{n} ranges behind random edits", n >= 50 and not wrong, wrong[:2])
    end("positions", c)


def test_whole_texts():
    """Changes without a range: what is kept of the old text is cut at whole characters."""
    c = begin(dict(PULLS))
    rng, uri, bad = random.Random(5), "file:///src/whole.py", []
    c.open(uri, "", version=0)
    for n in range(1, 200):
        head = "".join(rng.choice(["a", "é", "è", "😀", "😁", "\r\n", "\n", "# "])
                       for _ in range(rng.randrange(5)))
        text = f"# {head}\ns = '{rng.choice('😀😁éè')}'; h = hashlib.md5(x)\n"
        c.notify("textDocument/didChange", {"textDocument": {"uri": uri, "version": n},
                                            "contentChanges": [{"text": text}]})
        items = c.ask("textDocument/diagnostic", {"textDocument": {"uri": uri}})["items"]
        at = text.index("hashlib")
        where = {"start": c.position(text, at), "end": c.position(text, at + 14)}
        if [i["range"] for i in items] != [where]:
            bad.append((text, items))
    check("200 whole texts", not bad, bad[:2])
    end("whole texts", c)


def test_surrogates():
    c = begin(dict(PULLS))
    uri = "file:///src/half.py"
    c.open(uri, "x = '😀'\n")
    # Half of an emoji is deleted, as some editors do; what stays is a half.
    raw = ('{"jsonrpc":"2.0","method":"textDocument/didChange","params":{"textDocument":{"uri":'
           '"%s","version":2},"contentChanges":[{"range":{"start":{"line":0,"character":5},'
           '"end":{"line":0,"character":7}},"text":"\\ud83d"},{"range":{"start":{"line":1,'
           '"character":0},"end":{"line":1,"character":0}},"text":"import hashlib\\nh = '
           'hashlib.md5(x)\\u0000\\n"}]}}' % uri).encode()
    c.send_bytes(b"Content-Length: %d\r\n\r\n%s" % (len(raw), raw))
    report = c.ask("textDocument/diagnostic", {"textDocument": {"uri": uri}})
    check("halves of pairs and NUL keep the text in step", isinstance(report["items"], list))
    end("surrogates", c)


# ---- edits by instruction ----

SUM = "int add(int a, int b)\n{\n    // cerium: %s\n    return a - b; // 😀\n}\n"


def ask_edit(c, uri, line):
    """The code action of a comment, run; the answer to its command."""
    place = {"line": line, "character": 6}
    found = [a for a in c.ask("textDocument/codeAction", {
        "textDocument": {"uri": uri}, "range": {"start": place, "end": place},
        "context": {"diagnostics": []}}) if a["kind"] == "refactor.rewrite" and
        a.get("command", {}).get("command") == "cerium.server.edit"]
    if not found:
        return None
    command = found[0]["command"]
    return c.request("workspace/executeCommand", {"command": command["command"],
                                                  "arguments": command["arguments"]})


def test_edit():
    with tempfile.TemporaryDirectory() as folder:
        answer = os.path.join(folder, "answer")
        without = (SUM % "add").replace("    // cerium: add\n", "")
        whole = without.replace("a - b", "a + b")
        with open(answer, "w") as f:
            f.write("```c\n" + whole + "```\n")
        with open(os.path.join(folder, "a.c"), "w") as f:
            f.write(without)
        # `cerium edit` of the text without the comment is the truth.
        subprocess.run([CERIUM, "edit", "--quiet", "--apply", "--replay", answer,
                        os.path.join(folder, "a.c"), "add"], check=True, capture_output=True)
        with open(os.path.join(folder, "a.c")) as f:
            want = f.read()
        c = begin({**EDITS, "window": {"workDoneProgress": True}}, args=("--replay", answer))
        uri = "file:///src/a.c"
        c.open(uri, SUM % "add", "c")
        id_ = ask_edit(c, uri, 2)
        check("the comment offers an edit", id_ is not None)
        edit = c.wait_note("workspace/applyEdit")["params"]["edit"]["documentChanges"][0]
        got = apply_edits(c, c.texts[uri], edit["edits"])
        check("the edit is that of `cerium edit`", got == want, (got, want))
        check("for the version that it was made for", edit["textDocument"]["version"] == 1)
        check("and it is small", sum(e["newText"].count("\n") for e in edit["edits"]) == 1, edit)
        check("its command is answered", c.wait(id_)["result"] is None)
        c.ask("cerium/status", None)
        kinds = [n["params"]["value"]["kind"] for n in c.notes if n["method"] == "$/progress"]
        check("its progress begins and ends", kinds == ["begin", "end"], kinds)
        # The text moves on.
        id_ = ask_edit(c, uri, 2)
        c.change(uri, 0, 0, "\n")
        note = c.wait_note("window/showMessage")["params"]["message"]
        check("an edit of an older text is not made", "changed" in note, note)
        c.wait(id_)
        # The editor refuses it.
        c.applied = False
        c.change(uri, 0, 1, "")
        c.wait(ask_edit(c, uri, 2))
        note = c.wait_note("window/showMessage")["params"]["message"]
        check("the editor's refusal is told", "did not take" in note, note)
        # Canceled.
        id_ = ask_edit(c, uri, 2)
        c.notify("$/cancelRequest", {"id": id_})
        check("a canceled edit", c.wait(id_).get("error", {}).get("code") in (-32800, None))
        c.open(uri, SUM % "allow c-strcpy", "c")
        check("what the watchdog knows is no instruction", ask_edit(c, uri, 2) is None)
        end("edit", c)
        left = [n for n in os.listdir(tempfile.gettempdir()) if n.startswith("cerium-edit-")]
        check("no copies are left", not left, left)
    c = begin(dict(EDITS))
    uri = "file:///src/a.c"
    c.open(uri, SUM % "add", "c")
    c.wait(ask_edit(c, uri, 2))
    note = c.wait_note("window/showMessage")["params"]["message"]
    check("a model that only completes says so", "no chat form" in note, note)
    end("edit without a model for it", c)


# ---- next edits ----

NEXT = "textDocument/copilotInlineEdit"


def next_edit(c, uri, at, version=None):
    return c.ask(NEXT, {"textDocument": {"uri": uri, "version": version or c.versions[uri]},
                        "position": c.position(c.texts[uri], at)})["edits"]


def take(c, uri, edit):
    """Apply a next edit, as an editor does: one change."""
    text = c.texts[uri]
    new = apply_edits(c, text, [{"range": edit["range"], "newText": edit["text"]}])
    start = 0
    while start < min(len(text), len(new)) and text[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(text), len(new)) - start and text[-1 - end] == new[-1 - end]:
        end += 1
    c.change(uri, start, len(text) - end, new[start:len(new) - end])


def test_next_edit():
    c = begin(dict(EDITS))
    uri = "file:///n/rename.py"
    text = "def area(w, h):\n    # w times h: é😀\n    if w < 0:\n        return -w * h\n" \
           "    return w * h\n\n\nprint(area(1, 2), w)\n"
    c.open(uri, text)
    check("nothing was edited", next_edit(c, uri, 0) == [])
    at = text.index("w,")
    began = time.monotonic()
    for i, key in enumerate("width"):
        c.change(uri, at + i, at + i + (i == 0), key)
    typed = next_edit(c, uri, at + 5)
    check("not while it is typed", typed == [] or time.monotonic() - began > 0.4, typed)
    check("not for another version", next_edit(c, uri, len(text), 1) == [])
    time.sleep(0.6)
    n = 0
    while n < 10:
        edits = next_edit(c, uri, at + 5)
        if not edits:
            break
        check("the version comes back", edits[0]["textDocument"] == {
            "uri": uri, "version": c.versions[uri]}, edits)
        take(c, uri, edits[0])
        at = c.texts[uri].index("width") + 5
        time.sleep(0.6)
        n += 1
    want = text.replace("area(w,", "area(width,").replace("if w", "if width") \
        .replace("-w", "-width").replace("return w", "return width")
    check("a parameter is renamed, place by place", c.texts[uri] == want, c.texts[uri])
    # Kakoune sends the whole text for each change.
    whole = "file:///n/whole.py"
    c.open(whole, text)
    for n in range(1, 6):
        c.versions[whole] += 1
        c.texts[whole] = text.replace("(w,", "(" + "width"[:n] + ",")
        c.notify("textDocument/didChange", {
            "textDocument": {"uri": whole, "version": c.versions[whole]},
            "contentChanges": [{"text": c.texts[whole]}]})
    time.sleep(0.6)
    edits = next_edit(c, whole, text.index("w,") + 5)
    check("a rename of a client that sends whole texts", len(edits) == 1 and
          edits[0]["text"] == "width" and edits[0]["range"]["start"]["line"] == 2, edits)
    # Another kind of change is repeated once it was made twice.
    uri = "file:///n/alike.py"
    text = "".join(f"    self.assertEquals(f({i}), {i})\n" for i in range(6)) + "# assertEquals\n"
    c.open(uri, text)
    for i in range(2):
        at = c.texts[uri].index("assertEquals(")
        c.change(uri, at + 11, at + 12, "")
        time.sleep(0.6)
        edits = next_edit(c, uri, at)
        check(f"behind {i + 1} of them", bool(edits) == (i == 1), edits)
    place = c.position(c.texts[uri], at)
    actions = [a for a in c.ask("textDocument/codeAction", {
        "textDocument": {"uri": uri}, "range": {"start": place, "end": place},
        "context": {"diagnostics": []}}) if a["kind"] == "refactor.rewrite"]
    check("all others in one action", len(actions) == 1 and "4 more places" in
          actions[0]["title"], actions)
    new = apply_edits(c, c.texts[uri], actions[0]["edit"]["documentChanges"][0]["edits"])
    check("code alone", new == text.replace("assertEquals(", "assertEqual("), new)
    uri = "file:///n/string.py"
    c.open(uri, 'x = f("old", 1)\ny = f("old", 2)\nz = f("new", 3)\nprint("old")\n')
    for _ in range(2):
        at = c.texts[uri].index("old")
        c.change(uri, at, at + 3, "now")
        time.sleep(0.1)
    check("words of strings are not", next_edit(c, uri, len(c.texts[uri])) == [])
    end("next edit", c)


def test_jump():
    """A place that no screen shows is gone to, where the editor can and the user asks for it."""
    text = "def area(w):\n    return w\n" + "\n" * 40 + "for i in range(3):\n    print(area(i))\n"
    for can in (True, False):
        c = begin({**EDITS, "window": {"showDocument": {"support": can}}})
        uri = "file:///j/far.py"
        c.open(uri, text)
        at = text.index("area")
        c.change(uri, at, at + 4, "size")
        place = c.position(c.texts[uri], at)
        found = c.ask("textDocument/codeAction", {
            "textDocument": {"uri": uri}, "range": {"start": place, "end": place},
            "context": {"diagnostics": []}})
        go = [a for a in found if "command" in a]
        check("the way is offered where it can be gone", len(go) == can and len(found) == 1 + can,
              found)
        call = {"command": "cerium.server.next",
                "arguments": [{"uri": uri, "range": {"start": place, "end": place}}]}
        if can:
            check("by a command of the server", {k: go[0]["command"][k] for k in call} == call, go)
        begin_at = c.position(c.texts[uri], c.texts[uri].index("area"))
        want = {"start": begin_at, "end": {**begin_at, "character": begin_at["character"] + 4}}
        check("the place", c.ask("workspace/executeCommand", call) == want)
        shown = [n["params"] for n in c.notes if n["method"] == "window/showDocument"]
        check("is shown",
              shown == [{"uri": uri, "takeFocus": True, "selection": want}] * can, shown)
        c.change(uri, c.texts[uri].index("area"), c.texts[uri].index("area") + 4, "size")
        check("none is left", c.ask("workspace/executeCommand", call) is None)
        answer = c.wait(c.request("workspace/executeCommand", {"command": "cerium.server.next",
                                                               "arguments": [{"uri": "x"}]}))
        check("a place is needed", answer["error"]["code"] == -32602, answer)
        end(f"jump {can}", c)


# ---- lines of other files, and what became of completions ----

BASKET = """class Basket:
    def total_of_prices(self):
        return sum(self.prices)


def order_basket(basket, address, express=False):
    return basket, address, express
"""
SHOW = "from shop.basket import Basket\n\n\ndef show(basket):\n    print(basket.tot"


def until_files(c, n):
    limit = time.monotonic() + 120
    while c.ask("cerium/status", None)["files"] != n:
        assert time.monotonic() < limit, "the files do not get read"
        time.sleep(0.05)


def test_retrieval():
    """A name of another file is completed where snippets are on, and not where they are off."""
    with tempfile.TemporaryDirectory() as root:
        os.mkdir(root + "/shop")
        for name, text in (("basket.py", BASKET), ("notes.txt", BASKET), ("key.py", BASKET)):
            with open(f"{root}/shop/{name}", "w") as f:
                f.write(text)
        uri = f"file://{root}/shop/show.py"
        said = {}
        for on in (True, False):
            c = begin(options={"retrieval": on, "minConfidence": 0, "exclude": ["key.py"]},
                      workspaceFolders=[{"uri": f"file://{root}", "name": "w"}])
            c.ready()
            if on:
                until_files(c, 1)
            c.open(uri, SHOW + "\n    return basket\n")
            said[on] = [i["insertText"] for i in c.inline(uri, len(SHOW), 1)]
            if on:
                # A file that is open counts as it is there, not as it is on the disk.
                c.open(f"file://{root}/shop/more.py",
                       "def more(basket):\n    print(basket.total_in_euros())\n")
                c.change(uri, len(SHOW), len(SHOW), "al_in_")
                c.change(uri, 0, 0, "# x\n" * 20)
                said["open"] = [i["insertText"] for i in c.inline(uri, len(SHOW) + 86, 1)]
                until_files(c, 2)
                c.notify("workspace/didChangeWorkspaceFolders", {"event": {
                    "added": [], "removed": [{"uri": f"file://{root}", "name": "w"}]}})
                until_files(c, 0)
            else:
                status = c.ask("cerium/status", None)
                check("no file is read where they are off", status["files"] == 0, status)
            end(f"retrieval {on}", c)
        check("a name of another file", said[True] and said[True][0].startswith("al_of_prices("),
              said)
        check("a name of a file that is open, and not saved",
              said["open"] and said["open"][0].startswith("euros("), said)
        check("is not known without it", not said[False] or
              not said[False][0].startswith("al_of_prices("), said)


def usage_of(state):
    done = subprocess.run([CERIUM, "usage", "--completions", "--json"], capture_output=True,
                          text=True, env={**os.environ, "XDG_STATE_HOME": state})
    check("usage --completions", done.returncode == 0, done.stderr)
    return json.loads(done.stdout)["completions"]


def test_feedback():
    """Taken, typed, refused: by the text alone; a file keeps it, and it moves what is shown."""
    start = CODE + "    def sub(self, "
    with tempfile.TemporaryDirectory() as state:
        env = {"XDG_STATE_HOME": state}
        c = Client(program=CERIUM, env=env)
        seen.append(c)
        c.initialize(options={"minConfidence": 0})
        c.ready()
        saved = 0
        for i, act in enumerate(("take", "type", "refuse", "at once", "invoke")):
            uri = f"file:///f/{i}.py"
            c.open(uri, start)
            items = c.inline(uri, len(start), 1 if act == "invoke" else 2)
            check(f"something to {act}", len(items) == 1, items)
            text = items[0]["insertText"]
            if act != "at once":
                time.sleep(0.4)
            if act == "take":
                c.change(uri, len(start), len(start), text)
                saved += len(text)
            elif act == "type":
                for k, key in enumerate(text):
                    c.change(uri, len(start) + k, len(start) + k, key)
            else:
                c.change(uri, len(start), len(start), "~" + "q" * (act == "refuse"))
        end("feedback", c)
        rows = usage_of(state)
        check("one row", len(rows) == 1 and rows[0]["language"] == "python", rows)
        got = {k: rows[0][k] for k in ("shown", "taken", "typed", "refused", "characters_saved")}
        check("what became of them", got == {"shown": 3, "taken": 1, "typed": 1, "refused": 1,
                                             "characters_saved": saved}, got)
        # Somebody who refuses all is shown less, unless he says what he wants.
        path = os.path.join(state, "cerium", "completions.json")
        with open(path) as f:
            kept = json.load(f)
        kept["completions"][0].update(shown=5000, taken=0, typed=0, refused=5000, promised=2500)
        with open(path, "w") as f:
            json.dump(kept, f)
        shown = {}
        for name, options in (("none", {"feedback": False}), ("less", {}),
                              ("all", {"minConfidence": 0})):
            c = Client(program=CERIUM, env=env)
            seen.append(c)
            c.initialize(options=options)
            c.ready()
            shown[name] = 0
            line = "    def sub(self, other):\n        return Point(self.x - other.x, self.y)"
            for i in range(12, len(line), 2):
                uri = f"file:///f/{i}.py"
                text = CODE + line[:i]
                c.open(uri, text)
                shown[name] += len(c.inline(uri, len(text)))
            end(f"feedback {name}", c)
        check("fewer are shown", shown["less"] < shown["none"] <= shown["all"], shown)
        with open(path, "w") as f:
            f.write("not ours")
        c = Client(program=CERIUM, env=env)
        seen.append(c)
        c.initialize()
        check("another's file is left alone, and all goes on", c.ready()["kind"] == "Normal")
        end("another's file", c)
        check("it is", open(path).read() == "not ours")


# ---- the model, the server, settings ----

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
    import socket
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
    import socket
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    server = subprocess.Popen([CERIUM, "serve", "--port", str(port), "--guard", "off"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    typed, shown = "other):\n        return Point(self.x - other", {}
    text = "# é😀\r\n" * 200 + CODE.replace("\n", "\r\n") + "    def sub(self, "
    proxies = [Proxy(port), Proxy(port), Proxy(port, has_sockets=False),
               Proxy(port, drops="document.open")]

    def wait_for(what):
        for _ in range(600):
            if what():
                return True
            time.sleep(0.05)
        return False

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
                check("a socket opens", wait_for(lambda: proxy.sockets))
                c.open("file:///w/first.py", "x = ")
                check("and is used", wait_for(lambda: c.inline(
                    "file:///w/first.py", 4, 1) is not None and proxy.of("completion.create")))
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
                check("a lost connection is made again", wait_for(lambda: c.inline(
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
    import socket
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


def test_predictions():
    """--server: where nothing follows from the last edit, a model for edits is asked."""
    import socket
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    before = "a = one(1)\r\nb = two(2)\r\nc = three(3)\r\n"
    prompt = ("original:\na = one(1)\nb = two(2)\nupdated:\na = ein(1, 2)\nb = two(2)\n"
              "<|file_sep|>original/p.py:1:4\na = one(1)\nb = two(2)\nc = three(3)\n"
              "<|file_sep|>current/p.py:1:4\na = ein(1, 2)<|cursor|>\nb = two(2)\nc = three(3)\n")
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "answers.jsonl")
        with open(script, "w", encoding="utf-8") as f:
            f.write(json.dumps({"output": "a = ein(1, 2)\nb = two(2)\nc = three(3, 4)",
                                "when": {"api": "edits", "last": prompt}}) + "\n")
            f.write(json.dumps({"output": " ".join("word%d" % i for i in range(900)),
                                "when": {"api": "edits"}, "repeat": True}) + "\n")
        server = subprocess.Popen(
            [CERIUM, "serve", "--port", str(port), "--guard", "off", "--replay", script,
             "--edit-format", "sweep"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            c = begin(args=("--server", f"http://127.0.0.1:{port}"))
            for _ in range(1200):
                status = c.ask("cerium/status", None)
                if status["kind"] == "Normal" and not status["busy"]:
                    break
                time.sleep(0.1)
            uri = "file:///w/p.py"
            c.open(uri, before)
            at = before.index("one(1)")
            c.change(uri, at, at + 5, "ein(1, 2")
            asked = {"textDocument": {"uri": uri, "version": 2},
                     "position": Client.position(c.texts[uri], at + 9)}
            edits = c.ask(NEXT, asked)["edits"]
            check("a model's edit, in the file's line ends",
                  len(edits) == 1 and edits[0]["text"] == "c = three(3, 4)\r\n" and
                  edits[0]["range"] == {"start": {"line": 2, "character": 0},
                                        "end": {"line": 3, "character": 0}} and
                  edits[0]["textDocument"] == {"uri": uri, "version": 2}, edits)
            older = c.request(NEXT, asked)
            newer = c.request(NEXT, asked)
            check("a newer question answers the older with nothing",
                  c.wait(older)["result"] == {"edits": []})
            c.change(uri, 0, 0, "x")
            check("and so does a change", c.wait(newer)["result"] == {"edits": []})
            last = c.request(NEXT, {**asked, "textDocument": {"uri": uri, "version": 3}})
            c.notify("$/cancelRequest", {"id": last})
            check("canceled", c.wait(last)["error"]["code"] == -32800)
            end("predictions", c)
        finally:
            server.kill()
            server.wait()


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


def main():
    only = sys.argv[2:]
    for name, test in list(globals().items()):
        if name.startswith("test_") and name != "test_types" and (not only or name in only):
            try:
                test()
            except Exception as e:  # the others are run, too
                check(name, False, repr(e))
    if not only:
        test_types()
    for c in seen:
        if c.process.poll() is None:
            c.close()
    print(f"lsp: {passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
