#!/usr/bin/env python3
"""check_cases.py CERIUM FOLDER [-v]: what `cerium scan` says of the cases of FOLDER is what its
expect.jsonl wants of each: none, warn, block.  A line of it: {"case": file, or a generator that
ends in .py, "how": "scan", "scan --arguments", "scan --answer", "want", "lines": of the findings,
"known": a file in which it stood before}.  Prints what does not hold; status 1 when any does not."""
import collections
import json
import os
import subprocess
import sys
import tempfile


def findings(cerium, files, options):
    run = subprocess.run([cerium, "scan", "--json", *options, "--", *files], timeout=20, capture_output=True,
                         text=True, errors="replace")
    if run.returncode not in (0, 1):
        return None, run.stderr.strip()
    return [json.loads(line) for line in run.stdout.splitlines()], ""


def verdict(found):
    if any(f["severity"] == "block" for f in found):
        return "block"
    return "warn" if found else "none"


def made(folder, case, work):
    """The files that a generator makes, and how many findings each is to have."""
    script = os.path.join(folder, case)
    if case.endswith("make_long_line.py"):
        path = os.path.join(work, "long.py")
        with open(path, "w") as out:
            subprocess.run([sys.executable, script], stdout=out, check=True)
        return {path: 1}
    out = subprocess.run([sys.executable, script, work], capture_output=True, text=True, check=True)
    names = [line.rsplit(" ", 1)[0] for line in out.stdout.splitlines()]
    return {os.path.join(work, name): 1 if name == "my.cnf" else 2 for name in names}


def check(cerium, folder, case, work):
    options = case["how"].split(";")[0].split(",")[0].split()[1:]
    options = [o for o in options if o.startswith("--")]
    if case["case"].endswith(".py") and "make_" in case["case"]:
        for path, wanted in made(folder, case["case"], work).items():
            found, why = findings(cerium, [path], [])
            if found is None or len(found) != wanted or verdict(found) != "block":
                return f"{os.path.basename(path)}: {why or found}"
        return None
    if "known" in case:
        options += ["--known", os.path.join(folder, case["known"])]
    found, why = findings(cerium, [os.path.join(folder, case["case"])], options)
    if found is None:
        return why
    want = case["want"].split()[0]
    if verdict(found) != want:
        return f"{verdict(found)}: {[(f['rule'], f['line']) for f in found]}"
    if case.get("lines") and sorted({f["line"] for f in found}) != case["lines"]:
        return f"lines {[f['line'] for f in found]}"
    return None


def main():
    cerium, folder = sys.argv[1:3]
    count = collections.Counter()
    with open(os.path.join(folder, "expect.jsonl")) as f:
        cases = [json.loads(line) for line in f]
    for case in cases:
        if not case["how"].startswith(("scan", "python3")):
            continue
        with tempfile.TemporaryDirectory() as work:
            why = check(cerium, folder, case, work)
        count[why is None] += 1
        if why:
            print(f"{case['case']}: want {case['want']}: {why}")
    print(f"cases: {count[True]} of {count[True] + count[False]} hold")
    sys.exit(count[False] != 0)


main()
