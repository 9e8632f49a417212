#!/usr/bin/env python3
"""check_cases.py CERIUM FOLDER: what `cerium scan` says of the cases of FOLDER is what its
expect.jsonl wants of each: none, warn, block.  A line of it: {"case": file, or a generator that
ends in .py, "how": "scan", "scan --arguments", "scan --answer", "want", "lines": of the
findings, "known": a file in which it stood before}.  Prints what does not hold; status 1 when any
does not."""
import collections
import json
import os
import subprocess
import sys
import tempfile


def scan(cerium, files, options):
    """Findings by file, of one run; None and what it said when it could not."""
    run = subprocess.run([cerium, "scan", "--json", *options, "--", *files], capture_output=True,
                         text=True, errors="replace", timeout=300)
    if run.returncode not in (0, 1):
        return None, run.stderr.strip()
    by = collections.defaultdict(list)
    for line in run.stdout.splitlines():
        found = json.loads(line)
        by[found["file"]].append(found)
    return by, ""


def findings(cerium, files, options):
    by, why = scan(cerium, files, options)
    return (None, why) if by is None else ([f for found in by.values() for f in found], "")


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


def judge(case, found):
    want = case["want"].split()[0].rstrip(",;:")
    if verdict(found) != want:
        return f"{verdict(found)}: {[(f['rule'], f['line']) for f in found]}"
    if case.get("lines") and sorted({f["line"] for f in found}) != case["lines"]:
        return f"lines {[f['line'] for f in found]}"
    return None


def check_made(cerium, folder, case):
    with tempfile.TemporaryDirectory() as work:
        for path, wanted in made(folder, case["case"], work).items():
            found, why = findings(cerium, [path], [])
            if found is None or len(found) != wanted or verdict(found) != "block":
                return f"{os.path.basename(path)}: {why or found}"
    return None


def check_alone(cerium, folder, case, options):
    if "known" in case:
        options = [*options, "--known", os.path.join(folder, case["known"])]
    found, why = findings(cerium, [os.path.join(folder, case["case"])], options)
    return why if found is None else judge(case, found)


def check_together(cerium, folder, cases, options):
    """Findings in a diff have its files' names: such cases are run alone."""
    files = [os.path.join(folder, case["case"]) for case in cases]
    by, why = scan(cerium, files, options) if files else ({}, "")
    return [why if by is None else judge(c, by.get(f, [])) for c, f in zip(cases, files)]


def main():
    cerium, folder = sys.argv[1:3]
    told, together = {}, collections.defaultdict(list)
    with open(os.path.join(folder, "expect.jsonl")) as f:
        cases = [json.loads(line) for line in f]
    for case in cases:
        options = tuple(o for o in case["how"].replace(",", "").replace(";", "").split()
                        if o.startswith("--"))
        if "make_" in case["case"]:
            told[case["case"]] = check_made(cerium, folder, case)
        elif case["how"].startswith("scan"):
            if "known" in case or "--answer" in options:
                told[case["case"]] = check_alone(cerium, folder, case, options)
            else:
                together[options].append(case)
    for options, list_ in together.items():
        for case, why in zip(list_, check_together(cerium, folder, list_, options)):
            told[case["case"]] = why
    for name, why in told.items():
        if why is not None:
            print(f"{name}: {why}")
    failed = sum(why is not None for why in told.values())
    print(f"cases: {len(told) - failed} of {len(told)} hold")
    sys.exit(failed != 0)


main()
