#!/usr/bin/env python3
"""check_sarif.py - the log of `cerium scan --sarif` has what SARIF 2.1.0 requires.

usage: check_sarif.py CERIUM FOLDER FILE...
With the schema at hand (SARIF_SCHEMA=file, and jsonschema from PyPI) it is validated by it;
without, the properties that the standard requires of what we write are checked one by one."""
import json
import os
import subprocess
import sys

out = subprocess.run([sys.argv[1], "scan", "--sarif", *sys.argv[3:]], capture_output=True)
assert out.returncode == 1, out.stderr
log = json.loads(out.stdout)
schema = os.environ.get("SARIF_SCHEMA")
if schema:
    import jsonschema
    jsonschema.validate(log, json.load(open(schema)))
assert log["version"] == "2.1.0" and len(log["runs"]) == 1
run = log["runs"][0]
driver = run["tool"]["driver"]
assert driver["name"] == "cerium" and run["results"]
ids = [rule["id"] for rule in driver["rules"]]
assert len(ids) == len(set(ids))
for rule in driver["rules"]:
    assert rule["shortDescription"]["text"] and rule["helpUri"].startswith("https://")
for result in run["results"]:
    assert result["message"]["text"] and result["level"] in ("error", "warning")
    assert ids[result["ruleIndex"]] == result["ruleId"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] and place["region"]["startLine"] >= 1
    assert place["region"]["byteOffset"] >= 0 and place["region"]["byteLength"] > 0
