#!/usr/bin/env python3
"""guard_others.py - the watchdog's findings in examples that others wrote for their own rules.

usage: guard_others.py --cerium PROGRAM --data FOLDER [--bearer CLONE] [--rspec CLONE]

CLONE is Bearer/bearer-rules (files of tests, weak where they expect a finding) or SonarSource/rspec
(compliant and other code).  FOLDER has score.py, with the class of each CWE.  Each set
is split by a hash of the rule; the second half counts, and in it the part that is never read."""
import argparse
import glob
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

LANGUAGES = {".go": "go", ".java": "java", ".js": "javascript", ".php": "php", ".py": "python",
             ".rb": "ruby", ".ts": "typescript", ".tsx": "tsx"}
FOLDERS = {"python": "python", "javascript": "javascript", "java": "java", "go": "go",
           "php": "php", "ruby": "ruby", "cfamily": "cpp"}
FENCES = {"js": "javascript", "ts": "typescript", "c++": "cpp", "golang": "go"}
CORE = set("cmdi cmem codei crypto deser fmt jwt ldapi nosqli path perms redirect secrets sqli "
           "ssrf tls tmp xpathi xss xxe".split())


def classes_of(folder):
    names = {}
    head = open(os.path.join(folder, "score.py")).read().split("ap=argparse")[0]
    exec(head, names)  # its table of classes
    return names["cls"]


def bit(text):
    return hashlib.sha1(text.encode()).digest()[0] % 2


def third(text):
    return hashlib.sha256(text.encode()).digest()[0] % 3


def bearer(root, cls):
    for rule in sorted(glob.glob(root + "/rules/**/*.yml", recursive=True)):
        found = re.search(r"^  cwe_id:\n((?:\s+- .*\n?)+)", open(rule).read(), re.M)
        cwes = re.findall(r"\d+", found.group(1)) if found else []
        classes = [c for c in map(cls, cwes) if c in CORE]
        name = os.path.relpath(rule, root + "/rules")[:-4]
        for path in sorted(glob.glob(f"{root}/tests/{name}/testdata/**/*", recursive=True)):
            language = LANGUAGES.get(os.path.splitext(path)[1])
            if not classes or not language or not os.path.isfile(path):
                continue
            code = open(path, errors="replace").read()
            yield {"id": path, "language": language, "code": code, "classes": classes,
                   "weak": "bearer:expected" in code, "read": bit(name.replace("/", "_")) == 1,
                   "third": third("x" + name) == 0}


def fences(text):
    """(language, its heading or mark, code) of each listing."""
    head = mark = ""
    lines = iter(text.split("\n"))
    for line in lines:
        if re.match(r"=+\s", line):
            head = line.lower()
        found = re.match(r"\[source\s*,([^\]]*)\]", line)
        mark = found.group(1) if found else mark
        if line.strip() != "----":
            continue
        code = []
        for inner in lines:
            if inner.strip() == "----":
                break
            code.append(inner)
        kind = re.search(r"diff-type=(\w+)", mark)
        yield mark.split(",")[0].strip().lower(), kind.group(1) if kind else head, "\n".join(code)
        mark = ""


def rspec(root, cls):
    seen = set()
    for about in sorted(glob.glob(root + "/rules/S*/metadata.json")):
        rule = about.split("/")[-2]
        for folder, language in FOLDERS.items():
            said = json.load(open(about))
            own = f"{root}/rules/{rule}/{folder}/metadata.json"
            if os.path.exists(own):
                said.update({k: v for k, v in json.load(open(own)).items() if v})
            cwes = (said.get("securityStandards") or {}).get("CWE") or []
            classes = [c for c in map(cls, cwes) if c in CORE]
            if said.get("type") not in ("VULNERABILITY", "SECURITY_HOTSPOT") or not classes:
                continue
            texts = glob.glob(f"{root}/rules/{rule}/{folder}/**/*.adoc", recursive=True)
            for path in sorted(texts):
                text = open(path, errors="replace").read()
                for n, (fence, kind, code) in enumerate(fences(text)):
                    fence = FENCES.get(fence or language, fence or language)
                    weak = "noncompliant" in kind or "sensitive" in kind
                    safe = not weak and ("compliant" in kind or "exception" in kind)
                    code = re.sub(r"(?mi)\s*(//|#|/\*)\s*(noncompliant|compliant|sensitive|"
                                  r"questionable|ok|safe)\b.*$", "", code) + "\n"
                    known = fence in {*FOLDERS.values(), "typescript", "c"} and (weak or safe)
                    if not known or "include::" in code or (code, weak) in seen:
                        continue
                    seen.add((code, weak))
                    yield {"id": f"{path}#{n}", "language": fence, "code": code, "weak": weak,
                           "classes": classes, "read": bit(rule) == 1,
                           "third": third("y" + rule) == 0}


def judge(cerium, samples, cls):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
        f.writelines(json.dumps(s) + "\n" for s in samples)
        f.flush()
        run = subprocess.run([cerium, "scan", "--batch", f.name], capture_output=True, text=True)
    if run.returncode not in (0, 1):
        sys.exit("guard_others.py: cerium scan failed")
    for s, line in zip(samples, run.stdout.splitlines()):
        same = [f for f in json.loads(line)["findings"] if cls(f["cwe"]) in s["classes"]]
        s["found"], s["blocks"] = bool(same), any(f["severity"] == "block" for f in same)


def row(name, samples):
    weak, safe = ([s for s in samples if s["weak"] == w] for w in (True, False))

    def share(of, key):
        return f"{sum(s[key] for s in of) / max(1, len(of)):.3f}"
    print(f"{name:34} {len(weak):4} weak, recall {share(weak, 'found')}; {len(safe):4} safe, "
          f"raised {share(safe, 'found')}, blocked {share(safe, 'blocks')}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--cerium", default="./cerium")
    p.add_argument("--data", default=os.environ.get("GUARD_DATA", "../shared/data/guard"))
    p.add_argument("--bearer")
    p.add_argument("--rspec")
    a = p.parse_args()
    cls = classes_of(a.data)
    for name, root, read in (("bearer", a.bearer, bearer), ("rspec", a.rspec, rspec)):
        samples = list(read(root, cls)) if root else []
        if not samples:
            continue
        judge(a.cerium, samples, cls)
        other = [s for s in samples if not s["read"]]
        row(f"{name}, the half that was read", [s for s in samples if s["read"]])
        row(f"{name}, the other half", other)
        row(f"{name}, of it never read", [s for s in other if not s["third"]])


main()
