"""check_lsp_findings.py - findings of `cerium lsp`, and positions."""

import json
import os
import random
import subprocess
import tempfile
import time

from kit import CERIUM, CODE, EDITS, PULLS, apply_edits, begin, check, end

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
