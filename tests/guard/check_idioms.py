#!/usr/bin/env python3
"""check_idioms.py - what is found of weak lines as people write them with each framework.

usage: cerium scan --batch idioms.jsonl | check_idioms.py idioms.jsonl LEAST

The samples were written before the rules that find them, by class, language and framework, each
with its number; those that are no weakness are the same lines made safe, or what people write
every day.  Fails when less than the share LEAST of the weak ones is found, when one that says its
severity has another, or when a safe one is raised."""
import collections
import json
import sys


def main():
    path, least = sys.argv[1], float(sys.argv[2])
    samples = [json.loads(line) for line in open(path)]
    findings = {p["id"]: p["findings"] for p in map(json.loads, sys.stdin)}
    found = {i: {f["cwe"] for f in list_} for i, list_ in findings.items()}
    count = collections.Counter()
    for s in samples:
        hit = s["cwe"] in found[s["id"]]
        count[s["language"], s["vulnerable"], hit] += 1
        severities = {f["severity"] for f in findings[s["id"]] if f["cwe"] == s["cwe"]}
        if hit and s.get("severity", "") not in ("", *severities):
            print(f"{s['id']}: {severities}, not {s['severity']}")
            count["raised"] += 1
        if not s["vulnerable"] and found[s["id"]]:
            print(f"{s['id']}: raised where nothing is wrong: {sorted(found[s['id']])}")
            count["raised"] += 1
    weak = sum(n for k, n in count.items() if k != "raised" and k[1])
    right = sum(n for k, n in count.items() if k != "raised" and k[1] and k[2])
    for language in sorted({s["language"] for s in samples}):
        n = count[language, True, True]
        print(f"{language}: {n} of {n + count[language, True, False]}")
    print(f"idioms: {right} of {weak} weak ones found, {count['raised']} of "
          f"{len(samples) - weak} safe ones raised")
    sys.exit(right < least * weak or count["raised"] > 0)


main()
