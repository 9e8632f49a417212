"""guard_peers.py - other scanners on the watchdog's labelled samples, if installed.

score_peers() gives each the samples of the languages that it reads and scores it as the watchdog is
scored.  A folder holds them: a virtual environment with codeshield, semgrep, bandit and flawfinder,
and node_modules with eslint and eslint-plugin-security.

codeshield runs in parts: its regular expressions by its own code, its semgrep rules for all
samples in one run of semgrep, combined as it does for a sample; that avoids a process
for each.  semgrep alone runs all of codeshield's rules, as the package has none of its own."""
import collections
import csv
import json
import os
import re
import subprocess

ENDINGS = {"python": "py", "c": "c", "cpp": "cpp", "java": "java", "javascript": "js",
           "php": "php", "go": "go", "ruby": "rb"}
SHIELDED = ["python", "c", "cpp", "java", "javascript", "php"]
READS = {"codeshield": SHIELDED, "semgrep": SHIELDED, "bandit": ["python"],
         "flawfinder": ["c", "cpp"], "eslint-plugin-security": ["javascript"]}
ESLINT_CWES = {"detect-eval-with-expression": 95, "detect-child-process": 78,
               "detect-non-literal-fs-filename": 22, "detect-non-literal-require": 95,
               "detect-unsafe-regex": 1333, "detect-non-literal-regexp": 1333,
               "detect-pseudoRandomBytes": 338, "detect-possible-timing-attacks": 208,
               "detect-buffer-noassert": 119, "detect-object-injection": 915,
               "detect-no-csrf-before-method-override": 352, "detect-new-buffer": 119,
               "detect-disable-mustache-escape": 79, "detect-bidi-characters": 94}
# Runs in the folder's own Python: {path: [cwes of expressions, whether semgrep is needed]}.
SHIELD = """
import json, sys
from codeshield.insecure_code_detector import insecure_code_detector as d, insecure_patterns
from codeshield.insecure_code_detector.languages import Language
from codeshield.insecure_code_detector.usecases import UseCase
use, out = UseCase.CODESHIELD, {}
for path, language in json.load(sys.stdin).items():
    context = d.CodeContext(Language(language), None, None, path)
    text = open(path).read()
    found = [i.cwe_id for i in d._regex_analyze(text, context, use)]
    out[path] = [found, d._is_semgrep_scan_recommended(text, context, use)]
json.dump(out, sys.stdout)
"""
RULES = ("import codeshield.insecure_code_detector.oss as o, sys;"
         "sys.stdout.write(str(o.SEMGREP_RULE_REPO_PATH))")


def program(folder, name):
    path = os.path.join(folder, "bin", name)
    return path if os.path.exists(path) else None


def run_bandit(tool, files):
    found = collections.defaultdict(list)
    out = subprocess.run([tool, "-q", "-f", "json", *files], capture_output=True).stdout
    for r in json.loads(out)["results"]:
        found[r["filename"]].append(f"CWE-{r['issue_cwe'].get('id', 0)}")
    return found


def run_flawfinder(tool, files):
    found = collections.defaultdict(list)
    out = subprocess.run([tool, "--csv", "-Q", *files], capture_output=True, text=True)
    for r in csv.DictReader(out.stdout.splitlines()):
        found[r["File"]] += re.findall(r"CWE-\d+", r["CWEs"])
    return found


def run_eslint(folder, files):
    found = collections.defaultdict(list)
    work, modules = os.path.dirname(files[0]), os.path.join(folder, "node_modules")
    config = os.path.join(work, "eslint.config.mjs")
    with open(config, "w") as f:
        f.write(f'import security from "{modules}/eslint-plugin-security/index.js";\n'
                "export default [{...security.configs.recommended, languageOptions: {parserOptions:"
                " {ecmaFeatures: {jsx: true}}}}];\n")
    out = subprocess.run(["node", os.path.join(modules, "eslint", "bin", "eslint.js"), "-c", config,
                          "-f", "json", "--no-inline-config", *files], capture_output=True,
                         text=True, cwd=work)
    for r in json.loads(out.stdout):
        for m in r["messages"]:
            cwe = ESLINT_CWES.get((m["ruleId"] or "").removeprefix("security/"))
            if cwe:
                found[r["filePath"]].append(f"CWE-{cwe}")
    return found


def run_semgrep(folder, use, files):
    """All of codeshield's rules of a use ("codeshield", "cyberseceval")."""
    python, found = program(folder, "python"), collections.defaultdict(list)
    rules = subprocess.run([python, "-c", RULES], capture_output=True, text=True, check=True).stdout
    made = os.path.join(rules, "_generated_")
    configs = [os.path.join(made, name) for name in sorted(os.listdir(made))
               if name.endswith(f"_{use}.json")]
    out = subprocess.run([program(folder, "semgrep"), "scan", "--json", "--quiet",
                          "--metrics=off", "--disable-version-check", "--no-git-ignore", "-j", "1",
                          *(part for c in configs for part in ("--config", c)), *files],
                         capture_output=True, text=True)
    for r in json.loads(out.stdout)["results"]:
        found[r["path"]].append(r["extra"]["metadata"].get("cwe_id", ""))
    return found


def run_codeshield(folder, files, language_of):
    asked = json.dumps({f: language_of[f] for f in files})
    out = subprocess.run([program(folder, "python"), "-c", SHIELD], input=asked,
                         capture_output=True, text=True, check=True).stdout
    rules, found = run_semgrep(folder, "codeshield", files), {}
    for path, (cwes, goes_on) in json.loads(out).items():
        found[path] = cwes or (rules[path] if goes_on else [])
    return found


def run_peer(name, folder, files, language_of):
    """{file: [CWE-n]}, or None where it is not installed."""
    if name == "eslint-plugin-security":
        there = os.path.isdir(os.path.join(folder, "node_modules", name))
        return run_eslint(folder, files) if there else None
    tool = program(folder, "semgrep" if name == "codeshield" else name)
    if not tool:
        return None
    if name == "bandit":
        return run_bandit(tool, files)
    if name == "flawfinder":
        return run_flawfinder(tool, files)
    if subprocess.run([program(folder, "python"), "-c", RULES], capture_output=True).returncode:
        return None # the rules are codeshield's
    if name == "semgrep":
        return run_semgrep(folder, "cyberseceval", files)
    return run_codeshield(folder, files, language_of)


def score_peers(folder, samples, work, score, mine):
    """score(samples, {id: [CWE-n]}) gives a line; mine is the watchdog's {id: [CWE-n]}."""
    text, ids, language_of = "", {}, {}
    for s in samples:
        if s["language"] not in ENDINGS:
            continue
        path = os.path.join(work, f"{s['id']}.{ENDINGS[s['language']]}")
        with open(path, "w") as f:
            f.write(s["code"])
        ids[path], language_of[path] = s["id"], s["language"]
    for name, languages in READS.items():
        files = [p for p in ids if language_of[p] in languages]
        # codeshield's own labels cannot be used to judge it.
        named = [s for s in samples if s["language"] in languages and
                 (languages != SHIELDED or s["source"] != "CyberSecEval")]
        found = run_peer(name, os.path.abspath(folder), files, language_of)
        if found is None:
            text += f"{name}: not installed\n"
            continue
        by_id = {ids[p]: found.get(p, []) for p in files}
        text += f"{name} ({', '.join(languages)})\n  {score(named, by_id)}"
        text += f"  the watchdog there\n  {score(named, mine)}"
    return text
