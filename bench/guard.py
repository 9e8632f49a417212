#!/usr/bin/env python3
"""guard.py - the watchdog's findings, misses and cost; compared with installed peers.

usage: guard.py --cerium PROGRAM --bench PROGRAM [--data FOLDER] [--peers FOLDER] [-o FILE]
                [--libraries FOLDER...]

Scores the project's own sets (own.jsonl and idioms.jsonl in tests/guard) and, where FOLDER
(GUARD_DATA, else ../shared/data/guard) has them, dev.jsonl, clean.jsonl and score.py: same-class
recall, precision, false positives on near misses, findings per thousand lines of clean code, by
class and language.
--libraries counts findings in well-known code, without tests; each is worth a look.
--peers adds codeshield, semgrep, bandit, flawfinder and eslint-plugin-security, whichever FOLDER
holds (bench/guard_peers.py), on the languages that they read."""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

import guard_peers

SOURCES = (".py", ".js", ".mjs", ".cjs", ".ts", ".tsx", ".java", ".go", ".c", ".h", ".cc", ".cpp",
           ".hpp", ".php", ".rb")


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


def score(folder, name, predicted, *options, script=None):
    return subprocess.run(
        [sys.executable, script or os.path.join(folder, "score.py"), os.path.join(folder, name),
         predicted, *options], capture_output=True, text=True, check=True).stdout


def score_found(folder, work, samples_, found):
    """The first line of score.py for {id: [CWE-n]}."""
    part, predicted = os.path.join(work, "part.jsonl"), os.path.join(work, "found")
    with open(part, "w") as f:
        f.writelines(json.dumps(s) + "\n" for s in samples_)
    with open(predicted, "w") as f:
        for i, cwes in found.items():
            print(json.dumps({"id": i, "findings": [{"cwe": c} for c in cwes]}), file=f)
    return score(work, "part.jsonl", predicted, script=os.path.join(folder, "score.py"))


def peers(folder, peers_at, predicted, work):
    core = [s for s in samples(os.path.join(folder, "dev.jsonl")) if s["tier"] == "core"]
    mine = {p["id"]: [f["cwe"] for f in p["findings"]] for p in samples(predicted)}
    return guard_peers.score_peers(peers_at, core, work,
                                   lambda s, found: score_found(folder, work, s, found), mine)


def libraries(cerium, folders):
    """Findings per thousand lines, by rule."""
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
            if run.returncode not in (0, 1):
                sys.exit(f"guard.py: {run.stderr}")
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
    p.add_argument("--peers")
    p.add_argument("--libraries", nargs="*", default=[])
    p.add_argument("-o", "--output")
    a = p.parse_args()
    own, idioms, text = "tests/guard/own.jsonl", "tests/guard/idioms.jsonl", ""
    with tempfile.TemporaryDirectory() as work:
        out = os.path.join(work, "out")
        batch(a.cerium, own, out)
        text += score_own(own, out)
        sets = [own, idioms]
        batch(a.cerium, idioms, out)
        with open(out) as f:
            text += subprocess.run([sys.executable, "tests/guard/check_idioms.py", idioms, "0"],
                                   stdin=f, capture_output=True, text=True).stdout
        if os.path.exists(os.path.join(a.data, "score.py")):
            for name, tiers in (("dev.jsonl", "core"), ("clean.jsonl", "clean")):
                path = os.path.join(a.data, name)
                batch(a.cerium, path, out)
                sets.append(path)
                if a.peers and tiers == "core":
                    beside = peers(a.data, a.peers, out, work)
                for by in ("language", "cls") if tiers == "core" else ("source",):
                    text += f"\n{name}\n" + score(a.data, name, out, "--tiers", tiers, "--by", by)
            if a.peers:
                text += "\n" + beside
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
