#!/usr/bin/env python3
"""invented.py MODEL SET ROOT [N [FROM TO]]: what a model writes at places where a name of a module
stands, with the check of names and without: how many names that do not exist reach the user.

Completes N (200) pieces of SET (dev.jsonl of the shared set) behind the import or the dot of their
line, with the names of ROOT (made by its setup.sh), and looks for names that are not there in the
line that came, by `cerium scan --exists`.  FROM and TO: of those N, only these.  Greedy, so that
both runs begin the same; the text of answers without a finding has to be the same byte for byte.
CERIUM=./cerium; -v: each answer."""
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from asked import CERIUM, free_port  # noqa: E402


def places(path, n):
    """(language, code before the hole) of pieces with an attribute, or a name of an import."""
    out = []
    for row in open(path):
        piece = json.loads(row)
        if piece["kind"] not in ("import", "attribute", "symbol"):
            continue
        lines = piece["code"].split("\n")
        line = lines[piece["line"] - 1]
        word = piece["name"].replace(":", ".").split(".")[-1].split("/")[-1]
        at = line.rfind(word)
        if at > 0 and word:
            out.append((piece["language"], "\n".join(lines[:piece["line"] - 1] + [line[:at]])))
    step = max(len(out) // n, 1)
    return out[::step][:n]


class Serving:
    def __init__(self, model, root, exists):
        self.port, self.folder = free_port(), tempfile.TemporaryDirectory()
        self.server = subprocess.Popen(
            [CERIUM, "serve", "-m", model, "--port", str(self.port), "--workspace", root,
             "--guard", "exists=" + exists, "--store", os.path.join(self.folder.name, "store.db")],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(self, before):
        body = {"prompt": before, "max_tokens": 24, "temperature": 0}
        request = urllib.request.Request("http://127.0.0.1:%d/v1/completions" % self.port,
                                         json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=100) as answer:
                data = json.load(answer)
        except urllib.error.HTTPError as e:
            print("HTTP", e.code, e.read().decode()[:300], repr(before[-300:]))
            data = {"choices": [{"text": ""}]}
        return {**data, "content": data["choices"][0]["text"]}

    def wait(self):
        for _ in range(600):
            try:
                self.ask("x = 1\n")
                return
            except OSError:
                time.sleep(0.1)

    def stop(self):
        self.server.terminate()
        self.server.wait()
        self.folder.cleanup()


def invented(root, texts):
    """Of each (language, before, answer): names of the answer's lines that are not there."""
    rows = [{"id": str(i), "language": language, "code": before + answer + "\n"}
            for i, (language, before, answer) in enumerate(texts)]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
        f.writelines(json.dumps(row) + "\n" for row in rows)
        f.flush()
        run = subprocess.run([CERIUM, "scan", "--exists", root, "--batch", f.name],
                             capture_output=True, text=True)
    out = []
    for row, (_, before, answer) in zip(run.stdout.splitlines(), texts):
        first = before.count("\n") + 1
        out.append([x["name"] for x in json.loads(row)["findings"] if x["line"] >= first])
    return out


def main():
    model, data, root = sys.argv[1:4]
    numbers = [int(a) for a in sys.argv[4:] if a.isdigit()]
    list_ = places(data, numbers[0] if numbers else 200)
    list_ = list_[numbers[1]:numbers[2]] if len(numbers) > 2 else list_
    said, found = {}, {}
    for exists in ("off", "warn"):
        serving = Serving(model, root, exists)
        serving.wait()
        time.sleep(5 if exists == "warn" else 0)  # the index is read in the background
        answers = [serving.ask(place[1]) for place in list_]
        serving.stop()
        said[exists] = [a.get("content", "") for a in answers]
        found[exists] = [[f["deed"] for f in a.get("cerium", {}).get("findings", [])]
                         for a in answers]
    names = {e: invented(root, [(*p, t) for p, t in zip(list_, said[e])]) for e in said}
    n_off, n_warn = (sum(map(len, names[e])) for e in ("off", "warn"))
    changed = sum(a != b for a, b, f in zip(said["off"], said["warn"], found["warn"]) if not f)
    if "-v" in sys.argv:
        for p, a, b, x, y, f in zip(list_, said["off"], said["warn"], names["off"], names["warn"],
                                    found["warn"]):
            if x or y or f:
                print(repr(p[1][-50:]), "|", repr(a[:60]), x, "|", repr(b[:60]), y, f)
    print("%d places; names that are not there: %d without the check, %d with it (%.2f)"
          % (len(list_), n_off, n_warn, n_warn / max(n_off, 1)))
    print("answers with a finding: %d; of the others %d differ" % (sum(map(bool, found["warn"])),
                                                                   changed))


if __name__ == "__main__":
    main()
