#!/usr/bin/env python3
"""precision.py - how often each rule is right in clean libraries.

usage: precision.py draw CERIUM N FOLDER.. >FILE   N findings of each rule and value, to be read, at
                                                   most three of a folder, which is one library
       precision.py take FILE..                    adds them to bench/readings.jsonl, once read
       precision.py write                          rules/*.yaml and docs/watchdog.md get the figures
       precision.py check                          status 1 if they have others

A finding that was drawn is a line of JSON with "right": null.  Who reads it writes true (somebody
else than the program's author or user can use it) or false.  readings.jsonl has a line for each
reading: rules that were counted together share it, and "value" says of which values it is
(constant, unknown, parameter, source; without it: any).  A rule has the sum of its readings."""
import collections
import fnmatch
import glob
import json
import os
import random
import re
import subprocess
import sys
import time

READINGS, DOCS = "bench/readings.jsonl", "docs/watchdog.md"
OF_FOLDER = 3  # findings of a rule that one library tells the same of
LEAST = 10  # as RULE_READ_LEAST in src/guard/rules.h
VALUES = ("constant", "unknown", "parameter", "source")  # as guard_value in src/guard/guard.h
BEGIN, END = "<!-- precision -->\n", "<!-- end of precision -->\n"


def readings():
    with open(READINGS) as f:
        return [json.loads(line) for line in f]


def of_rule(rule, all_readings, value=None):
    right = read = 0
    for r in all_readings:
        if value and r.get("value") != value:
            continue
        if any(fnmatch.fnmatchcase(rule, name) for name in r["rules"]):
            right, read = right + r["right"], read + r["read"]
    return right, read


def draw(cerium, n, folders):
    by_rule = collections.defaultdict(list)
    for folder in folders:
        run = subprocess.run([cerium, "scan", "--json", "--confidence", "low", folder],
                             capture_output=True, text=True, errors="replace")
        of_folder = collections.defaultdict(list)
        for line in run.stdout.splitlines():
            found = json.loads(line)
            of_folder[found["rule"], found["value"]].append(found)
        for key, found in of_folder.items():
            by_rule[key] += random.Random(folder).sample(found, min(OF_FOLDER, len(found)))
    for (rule, value), found in sorted(by_rule.items()):
        for f in random.Random(rule + value).sample(found, min(n, len(found))):
            with open(f["file"], errors="replace") as code:
                lines = code.read().split("\n")
            around = lines[max(0, f["line"] - 6):f["line"] + 2]
            print(json.dumps({"rule": rule, "value": value, "file": f["file"], "line": f["line"],
                              "severity": f["severity"], "code": around, "right": None}))


def take(paths):
    count = collections.Counter()
    for path in paths:
        with open(path) as f:
            for r in map(json.loads, f):
                if r["right"] is not None:
                    count[r["rule"], r["value"], "read"] += 1
                    count[r["rule"], r["value"], "right"] += bool(r["right"])
    with open(READINGS, "a") as f:
        for rule, value in sorted({(rule, value) for rule, value, _ in count}):
            print(json.dumps({"rules": [rule], "value": value,
                              "right": count[rule, value, "right"],
                              "read": count[rule, value, "read"],
                              "when": time.strftime("%Y-%m-%d")}), file=f)


def rules_text(text, all_readings, seen):
    """A file of rules with the column, behind each id."""
    out = []
    for line in text.split("\n"):
        if re.match(r"    precision: ", line):
            continue
        out.append(line)
        m = re.match(r"  - id: (\S+)$", line)
        if not m:
            continue
        right, read = of_rule(m.group(1), all_readings)
        by_value = [(v, *of_rule(m.group(1), all_readings, v)) for v in VALUES]
        by_value = [one for one in by_value if one[2]]
        seen[m.group(1)] = (right, read, tuple(by_value))
        shares = ["%s: %d of %d" % one for one in by_value]
        if shares:
            out.append("    precision: {all: %d of %d, %s}" % (right, read, ", ".join(shares)))
        elif read:
            out.append("    precision: %d of %d" % (right, read))
    return "\n".join(out)


def table(seen):
    """Rules with the same figure are one row."""
    rows = collections.defaultdict(list)
    for rule, (right, read, by_value) in seen.items():
        if read >= LEAST or right:
            rows[rule.split("-")[0], right, read, by_value].append(rule)
    few = sum(1 for right, read, _ in seen.values() if read and read < LEAST and not right)
    text = "| rules | right | read | | by value |\n|---|---:|---:|---|---|\n"
    for (_, right, read, by_value), rules in sorted(rows.items(),
                                                    key=lambda r: (r[0][0], -r[0][2], r[1])):
        names = ", ".join("`%s`" % r for r in rules[:4])
        if len(rules) > 4:
            names += " and %d more of their kind" % (len(rules) - 4)
        verdict = "too few" if read < LEAST else "warn" if 2 * right < read else "block"
        values = ", ".join("%s %d of %d" % one for one in by_value)
        text += "| %s | %d | %d | %s | %s |\n" % (names, right, read, verdict, values)
    n = sum(1 for _, read, _ in seen.values() if not read)
    return text + ("\n%d rules had fewer than %d findings that were read, none of them right; %d "
                   "had none.\n" % (few, LEAST, n))


def write(check):
    wrong, seen, made = [], {}, {}
    for path in sorted(glob.glob("rules/*.yaml")):
        with open(path) as f:
            text = f.read()
        made[path] = rules_text(text, readings(), seen)
    with open(DOCS) as f:
        text = f.read()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    made[DOCS] = text[:begin] + table(seen) + text[end:]
    for path, text in made.items():
        with open(path) as f:
            if f.read() == text:
                continue
        wrong.append(path)
        if not check:
            with open(path, "w") as f:
                f.write(text)
    for path in wrong:
        print("%s: %s" % (path, "its precisions are not those of " + READINGS if check
                          else "written"))
    sys.exit(bool(check and wrong))


def main():
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    if what == "draw" and len(sys.argv) > 4:
        draw(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
    elif what == "take":
        take(sys.argv[2:])
    elif what in ("write", "check"):
        write(what == "check")
    else:
        sys.exit(__doc__)


main()
