#!/usr/bin/env python3
"""check_endings.py PROGRAM MODEL [--all|--words] FILE..: answers that end too early.  PROGRAM is
bench_repairs.  The weak samples of the rules and of FILEs are put into fences, with more code of
their language after them, and are cut at every seventh word after the weak line (--all: more
samples; --words: one of each language, at every word, followed by each text of endings/), as by
the model's own end and as by the limit of tokens.  What an answer that ended by
itself left must parse, by its grammar and, but for REFUSED_MAX, by the language's own parser where
one is installed; so must one that its limit cut behind a line that opens a block.  With ENDINGS in
the environment what was left is written to that file.  Status 1 when not."""
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
SUFFIX = check_repairs.EXTENSIONS
SYNTAX = re.compile(r"error: (.*expected|illegal start|reached end|unclosed|not a statement|"
                    r"unterminated|stray|missing terminating|.*without|empty character)")


def after(language):
    """The texts that follow a sample of this language."""
    found = []
    for name in "after", "hostile":
        try:
            with open("tests/guard/endings/%s.%s.txt" % (name, SUFFIX[language])) as text:
                found.append(text.read())
        except FileNotFoundError:
            pass
    return found


AFTER = {language: after(language) for language in SUFFIX}
AFTER["typescript"].insert(0, AFTER["javascript"][0])
AFTER["tsx"].insert(0, AFTER["javascript"][0])
AFTER["cpp"].insert(0, AFTER["c"][0].replace("struct shelf {", "class shelf {\npublic:").replace(
    "struct shelf *s", "shelf *s"))
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


def by_program(command, suffix, only=re.compile("")):
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
                said += "".join(line + "\n" for line in (run.stdout + run.stderr).splitlines()
                                if only.search(line))
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
       "c": ("gcc", by_program(["gcc", "-fsyntax-only", "-w"], "c", SYNTAX)),
       "cpp": ("g++", by_program(["g++", "-fsyntax-only", "-w", "-std=c++20"], "cc", SYNTAX)),
       "java": ("javac", by_program(["javac", "-proc:none", "-Xmaxerrs", "9999", "-d", os.devnull],
                                    "java", SYNTAX)),
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


def held(program, model, kept):
    """Samples with a line that is taken back, and the byte after it."""
    lines = [json.dumps({"id": str(i), "form": "code", "language": language, "code": code})
             for i, (_, language, code, _) in enumerate(kept)]
    run = subprocess.run([program, model], input="\n".join(lines) + "\n", capture_output=True,
                         text=True, check=True)
    for row in map(json.loads, run.stdout.splitlines()):
        name, language, code, _ = kept[int(row["id"])]
        weak = [d[2] for d in row["deeds"] if d[0] == "taken_back"]
        if weak and language in AFTER and row["parses"][0] and "?>" not in code:
            yield int(row["id"]), name, language, code, weak_end(code, max(weak))


def wholes(program, model, files, words):
    """(name, language, text, first byte of cuts, which of them)"""
    samples, seen = list(check_repairs.samples(files)), set()
    every = 1 if words else 11 if "--all" in sys.argv else 7
    kept = samples if every != 7 else samples[::11]
    for number, name, language, code, begin in held(program, model, kept):
        if not words:
            yield name, language, code + "\n" + AFTER[language][0], begin, number, every
        elif language not in seen:
            seen.add(language)
            for i, text in enumerate(AFTER[language]):
                yield "%s/%d" % (name, i), language, code + "\n" + text, begin, 0, 1


def with_tag(language, code):
    return "<?php " + code if language == "php" and "<?" not in code else code


def main():
    program, model, *files = sys.argv[1:]
    lines, wanted, whole_of = [], {}, {}
    words = "--words" in files
    files = [f for f in files if not f.startswith("--")]
    for name, language, whole, begin, first, every in wholes(program, model, files, words):
        for at in cuts(whole, begin, first, every):
            for stop in ("end", "length"):
                key = "%s@%d %s" % (name, at, stop)
                text = "```%s\n%s" % (language, whole[:at])
                wanted[key] = (language, whole[:at], stop)
                whole_of[key] = whole
                lines.append(json.dumps({"id": key, "form": "answer", "language": language,
                                         "code": text, "stop": stop}))
    run = subprocess.run([program, model], input="\n".join(lines) + "\n", capture_output=True,
                         text=True, check=True)
    if "ENDINGS" in os.environ:
        with open(os.environ["ENDINGS"], "w") as f:
            f.write(run.stdout)
    count, wrong, said_by = collections.Counter(), [], collections.defaultdict(list)
    for row in map(json.loads, run.stdout.splitlines()):
        language, code, stop = wanted[row["id"]]
        said = row["text"].split("\n", 1)[1] if "\n" in row["text"] else ""
        deeds = [d[0] + " " + d[1] for d in row["deeds"]]
        closed = "warned end" in deeds
        if not any(d.startswith("taken_back") for d in deeds):
            continue  # its weak line is not complete
        count[language, stop] += 1
        count[language, stop, "closed"] += closed
        if row["weak"]:
            wrong.append((row["id"], "weak", said))
        if stop == "length" and not closed:
            continue
        if not row["fence_parses"]:
            count[language, stop, "broken"] += 1
            if closed or not words:
                wrong.append((row["id"], "does not parse", said))
        elif closed:
            said_by[language].append((row["id"], stop, with_tag(language, said)))
    refused = []
    for language, texts in said_by.items():
        whole = sorted({whole_of[t[0]] for t in texts})
        takes = dict(zip(whole, own_parser(language, [with_tag(language, w) for w in whole])))
        texts = [t for t in texts if takes[whole_of[t[0]]]]
        count[language, "end", "judged"] = sum(t[1] == "end" for t in texts)
        count[language, "length", "judged"] = sum(t[1] == "length" for t in texts)
        for (name, stop, said), good in zip(texts, own_parser(language, [t[2] for t in texts])):
            count[language, stop, "refused"] += not good
            if not good:
                refused.append((name, "its own parser refuses it", said))
    for key in sorted({k[:2] for k in count}):
        print("%s, %s: %d answers, %d closed, %d do not parse, %d of %d its own parser refuses" % (
            *key, count[key], count[key + ("closed",)], count[key + ("broken",)],
            count[key + ("refused",)], count[key + ("judged",)]))
    n_closed = sum(len(texts) for texts in said_by.values())
    print("endings: %d answers, %d closed, %d refused by their own parsers" % (
        sum(n for k, n in count.items() if len(k) == 2), n_closed, len(refused)))
    wrong += refused if len(refused) > REFUSED_MAX * n_closed or words else []
    for name, why, text in sorted(wrong, key=lambda w: w[1])[::-1][:12]:
        print("%s: %s:\n%s\n----" % (name, why, text[-600:]))
    print("endings: %d wrong of %d" % (len(wrong), len(wanted)))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
