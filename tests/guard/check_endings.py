#!/usr/bin/env python3
"""check_endings.py PROGRAM MODEL [--all] FILE..: answers that end too early.  PROGRAM is
bench_repairs.  The weak samples of the rules and of FILEs are put into fences, with more code of
their language after them, and are cut at every seventh word after the weak line (--all: more
samples), as by the model's own end and as by the limit of tokens.  What an answer that ended by
itself left must parse, by its grammar and, but for REFUSED_MAX, by the language's own parser where
one is installed; so must one that its limit cut behind a line that opens a block.
Status 1 when not."""
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_repairs  # noqa: E402

REFUSED_MAX = 0.01  # of the closed answers, by parsers that ask for more than the grammars
AFTER = {}
for language, name in (("python", "py"), ("javascript", "js"), ("java", "java"), ("go", "go"),
                       ("c", "c"), ("php", "php"), ("ruby", "rb")):
    with open("tests/guard/endings/after.%s.txt" % name) as text:
        AFTER[language] = text.read()
AFTER["typescript"] = AFTER["tsx"] = AFTER["javascript"]
AFTER["cpp"] = AFTER["c"].replace("struct shelf {", "class shelf {\npublic:").replace(
    "struct shelf *s", "shelf *s")
NODE = """const vm = require("vm");
const codes = JSON.parse(require("fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(codes.map((c) => {
  try { new vm.SourceTextModule(c); return true; } catch (e) { return false; }
})));
"""


def by_python(codes):
    return [check_repairs.parse_python(code, None) for code in codes]


def by_node(codes):
    run = subprocess.run(["node", "--no-warnings", "--experimental-vm-modules", "-e", NODE],
                         input=json.dumps(codes), capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def by_program(command, suffix):
    """One start for all texts; what it says names the files that it refuses."""
    def check(codes):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, "%d.%s" % (i, suffix)) for i in range(len(codes))]
            for path, code in zip(paths, codes):
                with open(path, "w") as f:
                    f.write(code)
            said = ""
            for i in range(0, len(paths), 200):
                run = subprocess.run([*command, *paths[i:i + 200]], capture_output=True, text=True)
                said += run.stdout + run.stderr
            return [path + ":" not in said for path in paths]
    return check


def by_each(command, suffix):
    def check(codes):
        with tempfile.TemporaryDirectory() as folder:
            one = check_repairs.command(command[0], command[1:], suffix)
            return [one(code, folder) for code in codes]
    return check


OWN = {"python": (None, by_python), "javascript": ("node", by_node),
       "go": ("gofmt", by_program(["gofmt", "-e", "-l"], "go")),
       "php": ("php", by_each(["php", "-l"], "php")),
       "ruby": ("ruby", by_each(["ruby", "-c"], "rb"))}


def own_parser(language, codes):
    name, check = OWN.get(language, ("", None))
    if not check or (name and not shutil.which(name)):
        print("skipped: %s as its own parser reads it: %s" % (
            language, "no " + name if name else "there is none"))
        return [True] * len(codes)
    return check(codes)


def cuts(code, begin, first, every):
    """After words, signs and blanks before a line, from byte `begin` on."""
    at = [m.end() for m in re.finditer(r"\w+|[^\w\s]|\n[ \t]*", code) if m.end() >= begin]
    return at[first % every::every]


def weak_end(code, line):
    return len("".join(code.splitlines(True)[:line]))


def main():
    program, model, *files = sys.argv[1:]
    every, of = (11, 1) if "--all" in files else (7, 11)
    files = [f for f in files if f != "--all"]
    lines, wanted = [], {}
    kept = [s for i, s in enumerate(check_repairs.samples(files)) if i % of == 0]
    first = [json.dumps({"id": str(i), "form": "code", "language": language, "code": code})
             for i, (_, language, code, _) in enumerate(kept)]
    run = subprocess.run([program, model], input="\n".join(first) + "\n", capture_output=True,
                         text=True, check=True)
    for row in map(json.loads, run.stdout.splitlines()):
        name, language, code, _ = kept[int(row["id"])]
        weak = [d[2] for d in row["deeds"] if d[0] == "taken_back"]
        if not weak or language not in AFTER or not row["parses"][0] or "?>" in code:
            continue
        whole = code + "\n" + AFTER[language]
        begin = weak_end(code, max(weak))
        for at in cuts(whole, begin, int(row["id"]), every):
            for stop in ("end", "length"):
                key = "%s@%d %s" % (name, at, stop)
                text = "```%s\n%s" % (language, whole[:at])
                wanted[key] = (language, whole[:at], stop)
                lines.append(json.dumps({"id": key, "form": "answer", "language": language,
                                         "code": text, "stop": stop}))
    run = subprocess.run([program, model], input="\n".join(lines) + "\n", capture_output=True,
                         text=True, check=True)
    count, wrong, said_by = collections.Counter(), [], collections.defaultdict(list)
    for row in map(json.loads, run.stdout.splitlines()):
            language, code, stop = wanted[row["id"]]
            said = row["text"].split("\n", 1)[1] if "\n" in row["text"] else ""
            deeds = [d[0] + " " + d[1] for d in row["deeds"]]
            closed = "warned end" in deeds
            count[language, stop] += 1
            count[language, stop, "closed"] += closed
            if row["weak"]:
                wrong.append((row["id"], "weak", said))
            if stop == "length" and not closed:
                continue
            if not any(d.startswith("taken_back") for d in deeds):
                count[language, stop] -= 1  # its weak line is not complete
                continue
            parses = row["fence_parses"]
            if not parses:
                count[language, stop, "broken"] += 1
                wrong.append((row["id"], "does not parse", said))
            elif closed:
                head = "<?php " if language == "php" and "<?" not in code else ""
                said_by[language].append((row["id"], stop, head + said))
    refused = []
    for language, texts in said_by.items():
        for (name, stop, said), good in zip(texts, own_parser(language, [t[2] for t in texts])):
            count[language, stop, "refused"] += not good
            if not good:
                refused.append((name, "its own parser refuses it", said))
    for key in sorted({k[:2] for k in count}):
        print("%s, %s: %d answers, %d closed, %d do not parse, %d its own parser refuses" % (
            *key, count[key], count[key + ("closed",)], count[key + ("broken",)],
            count[key + ("refused",)]))
    n_closed = sum(len(texts) for texts in said_by.values())
    wrong += refused if len(refused) > REFUSED_MAX * n_closed else []
    for name, why, text in sorted(wrong, key=lambda w: w[1])[::-1][:12]:
        print("%s: %s:\n%s\n----" % (name, why, text[-600:]))
    print("endings: %d wrong of %d" % (len(wrong), len(wanted)))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
