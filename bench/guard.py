#!/usr/bin/env python3
"""guard.py - what the watchdog finds, what it misses, what it costs; beside peers that are there.

usage: guard.py --cerium PROGRAM --bench PROGRAM [--data FOLDER] [--peers] [-o FILE]
                [--libraries FOLDER...]

Scores the project's own small set (tests/guard/own.jsonl) and, where FOLDER (GUARD_DATA, else
../shared/data/guard) has them, dev.jsonl, clean.jsonl and score.py: same-class recall, precision,
false positives on near misses, findings per thousand lines of clean code, by class and language.
--libraries counts findings in code that is well known, tests aside; each is worth a look.
--peers adds bandit and flawfinder, whichever is installed, on the languages that they read."""
import argparse
import collections
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCES = (".py", ".js", ".mjs", ".cjs", ".ts", ".tsx", ".java", ".go", ".c", ".h", ".cc", ".cpp",
           ".hpp", ".php", ".rb")
ENDINGS = {"python": "py", "c": "c", "cpp": "cpp"}


def batch(cerium, path, out):
    with open(out, "w") as f:
        run = subprocess.run([cerium, "scan", "--batch", path], stdout=f)
    if run.returncode not in (0, 1):
        sys.exit("guard.py: cerium scan failed")


def samples(path):
    return [json.loads(line) for line in open(path)]


def score_own(path, predicted):
    found = {p["id"]: {f["cwe"] for f in p["findings"]} for p in samples(predicted)}
    count = collections.Counter()
    for s in samples(path):
        count[s["vulnerable"], s["cwe"] in found[s["id"]]] += 1
    weak, fine = (count[v, True] + count[v, False] for v in (True, False))
    return (f"own set: {count[True, True]} of {weak} weak samples found, "
            f"{count[False, True]} of {fine} near misses raised\n")


def score(folder, name, predicted, *options):
    return subprocess.run(
        [sys.executable, os.path.join(folder, "score.py"), os.path.join(folder, name), predicted,
         *options], capture_output=True, text=True, check=True).stdout


def run_peer(name, files):
    """{file: [CWE-n]} of one peer over files."""
    found = collections.defaultdict(list)
    if name == "bandit":
        out = subprocess.run(["bandit", "-q", "-f", "json", *files], capture_output=True).stdout
        for r in json.loads(out)["results"]:
            found[r["filename"]].append(f"CWE-{r['issue_cwe'].get('id', 0)}")
    else:
        out = subprocess.run(["flawfinder", "--csv", "-Q", *files], capture_output=True, text=True)
        for r in csv.DictReader(out.stdout.splitlines()):
            for cwe in re.findall(r"CWE-\d+", r["CWEs"]):
                found[r["File"]].append(cwe)
    return found


def peers(folder, work):
    text = ""
    for name, languages in (("bandit", ["python"]), ("flawfinder", ["c", "cpp"])):
        if not shutil.which(name):
            text += f"{name}: not installed\n"
            continue
        mine = [s for s in samples(os.path.join(folder, "dev.jsonl")) if s["language"] in languages]
        paths = {}
        for s in mine:
            path = os.path.join(work, f"{s['id']}.{ENDINGS[s['language']]}")
            with open(path, "w") as f:
                f.write(s["code"])
            paths[path] = s["id"]
        found = run_peer(name, list(paths))
        predicted, part = os.path.join(work, name), os.path.join(work, name + ".jsonl")
        with open(predicted, "w") as f:
            for path, i in paths.items():
                print(json.dumps({"id": i, "findings": [{"cwe": c} for c in found[path]]}), file=f)
        with open(part, "w") as f:
            f.writelines(json.dumps(s) + "\n" for s in mine)
        out = subprocess.run([sys.executable, os.path.join(folder, "score.py"), part, predicted],
                             capture_output=True, text=True, check=True).stdout
        text += f"{name} ({', '.join(languages)}): {out}"
    return text


def libraries(cerium, folders):
    """Findings a thousand lines, by rule."""
    text = ""
    for folder in folders:
        files = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names
                 if name.endswith(SOURCES) and not re.search(r"/tests?/|\.min\.", at + "/" + name)
                 and os.path.isfile(os.path.join(at, name))]
        lines = sum(open(f, "rb").read().count(b"\n") for f in files)
        rules = collections.Counter()
        for i in range(0, len(files), 400):
            run = subprocess.run([cerium, "scan", "--json", *files[i:i + 400]],
                                 capture_output=True, text=True, errors="replace")
            rules.update(json.loads(line)["rule"] for line in run.stdout.splitlines())
        n = sum(rules.values())
        text += (f"{folder}: {n} findings in {lines} lines of {len(files)} files, "
                 f"{1000 * n / max(lines, 1):.2f} in a thousand\n")
        text += "".join(f"    {count:4} {rule}\n" for rule, count in rules.most_common(12))
    return text


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--cerium", default="./cerium")
    p.add_argument("--bench", required=True)
    p.add_argument("--data", default=os.environ.get("GUARD_DATA", "../shared/data/guard"))
    p.add_argument("--peers", action="store_true")
    p.add_argument("--libraries", nargs="*", default=[])
    p.add_argument("-o", "--output")
    a = p.parse_args()
    own, text = "tests/guard/own.jsonl", ""
    with tempfile.TemporaryDirectory() as work:
        out = os.path.join(work, "out")
        batch(a.cerium, own, out)
        text += score_own(own, out)
        sets = [own]
        if os.path.exists(os.path.join(a.data, "score.py")):
            for name, tiers in (("dev.jsonl", "core"), ("clean.jsonl", "clean")):
                path = os.path.join(a.data, name)
                batch(a.cerium, path, out)
                sets.append(path)
                for by in ("language", "cls") if tiers == "core" else ("source",):
                    text += f"\n{name}\n" + score(a.data, name, out, "--tiers", tiers, "--by", by)
            if a.peers:
                text += "\n" + peers(a.data, work)
        else:
            text += f"{a.data}: no labelled sets: the own set alone\n"
        if a.libraries:
            text += "\n" + libraries(a.cerium, a.libraries)
        text += "\n" + subprocess.run([a.bench, "rules", *sets], capture_output=True, text=True,
                                      check=True).stdout
    print(text, end="")
    if a.output:
        with open(a.output, "w") as f:
            f.write(text)


main()
