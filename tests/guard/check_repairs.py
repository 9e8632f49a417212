#!/usr/bin/env python3
"""check_repairs.py PROGRAM MODEL FILE..: what stands in the place of weak lines.  PROGRAM is
bench_repairs; the samples are those of the rules that must be found, each third of them also in a
fence, with CRLF, as a patch, and in the JSON of a call that writes a file, an apply_patch or a
notebook; those of the files are read alone.  Nothing that is released is weak, all of it parses
where the sample does, by the language's own parser where one is installed, and what carries it is
whole.  Those that say "compiles" are compiled before and behind, where a compiler is installed.
Status 1 when not."""
import ast
import collections
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings

import yaml

warnings.simplefilter("ignore")
EXTENSIONS = {"python": "py", "javascript": "js", "typescript": "ts", "tsx": "tsx", "java": "java",
              "go": "go", "c": "c", "cpp": "cpp", "php": "php", "ruby": "rb"}
ENDED_MAX = 0.03  # of the samples that are held may end the answer before the line


COMPILED = set()


def samples(files):
    n = 0
    for path in sorted(glob.glob("rules/*.yaml")):
        with open(path) as f:
            rules = yaml.safe_load(f)
        language = rules["language"]
        language = language if isinstance(language, str) else language[0]
        for rule in rules["rules"]:
            for i, bad in enumerate(rule.get("bad", [])):
                n += 1
                carriers = CARRIERS if n % 3 == 0 else ["alone"]
                yield "%s#%d" % (rule["id"], i), language, bad.rstrip("\n") + "\n", carriers
    for path in files:
        with open(path) as f:
            for line in f:
                r = json.loads(line)
                if "weak" in r:
                    yield r["weak"], r["language"], r["prompt"] + r["weak"], ["alone"]
                elif r["vulnerable"]:
                    COMPILED.update([r["id"]] if r.get("compiles") else [])
                    yield r["id"], r["language"], r["code"].rstrip("\n") + "\n", ["alone"]


# ---- what carries code: how it is put in, and how it comes out ----

def added(code):
    return "".join("+" + line + "\n" for line in code.split("\n")[:-1])


def taken(patch):
    assert all(line[:1] == "+" for line in patch.split("\n")[:-1]), patch
    return "".join(line[1:] + "\n" for line in patch.split("\n")[:-1])


def between(text, head, tail):
    assert text.startswith(head) and text.endswith(tail), text
    return text[len(head):len(text) - len(tail)]


def fence(language, code):
    head, tail = "Here:\n\n```%s\n" % language, "```\nDone.\n"
    return head + code + tail, lambda said: between(said, head, tail)


def crlf(language, code):
    text, out = fence(language, code)
    return (text.replace("\n", "\r\n"),
            lambda said: out(said.replace("\r\n", "\n")))


def patch(language, code):
    name = "a." + EXTENSIONS[language]
    head = "*** Begin Patch\n*** Add File: %s\n" % name
    tail = "*** End Patch\n"
    return head + added(code) + tail, lambda said: taken(between(said, head, tail))


def call(language, code):
    head = json.dumps({"path": "a." + EXTENSIONS[language], "content": ""})[:-2]
    return (head + json.dumps(code)[1:-1] + '"}', lambda said: json.loads(said)["content"])


def call_patch(language, code):
    text, out = patch(language, code)
    return json.dumps({"input": text}), lambda said: out(json.loads(said)["input"])


def notebook(_, code):
    lines = [line + "\n" for line in code.split("\n")[:-1]]
    cells = {"cells": [{"cell_type": "code", "source": lines}]}
    return (json.dumps({"path": "a.ipynb", "content": json.dumps(cells, indent=1)}),
            lambda said: "".join(json.loads(json.loads(said)["content"])["cells"][0]["source"]))


CARRIERS = {"alone": ("code", None), "fence": ("answer", fence), "crlf": ("answer", crlf),
            "patch": ("answer", patch), "call": ("json", call), "call_patch": ("json", call_patch),
            "notebook": ("json", notebook)}


# ---- does it parse ----

def command(name, arguments, suffix):
    def check(code, folder):
        path = os.path.join(folder, "a." + suffix)
        with open(path, "w") as f:
            f.write(code)
        return subprocess.run([name, *arguments, path], capture_output=True,
                              timeout=60).returncode == 0
    return check


def parse_python(code, _):
    try:
        ast.parse(code)
    except (SyntaxError, ValueError):
        return False
    return True


def parsers():
    found = {"python": parse_python}
    for language, name, arguments, suffix in (
            ("javascript", "node", ["--check"], "mjs"), ("go", "gofmt", ["-e", "-l"], "go"),
            ("php", "php", ["-l"], "php"), ("ruby", "ruby", ["-c"], "rb")):
        if shutil.which(name):
            found[language] = command(name, arguments, suffix)
        else:
            print("skipped: %s as its own parser reads it: no %s" % (language, name))
    return found


def compile_java(texts, folder):
    """One start of the compiler for all: the keys of those that it refuses."""
    paths = {}
    for i, (key, code) in enumerate(texts):
        os.makedirs(os.path.join(folder, "p%d" % i))
        path = os.path.join(folder, "p%d" % i, "A.java")
        with open(path, "w") as f:
            f.write("package p%d;\n%s" % (i, code))
        paths[path] = key
    run = subprocess.run(["javac", "-proc:none", "-Xmaxerrs", "1000", "-d", folder, *paths],
                         capture_output=True, text=True, timeout=600)
    return {key for path, key in paths.items() if path + ":" in run.stderr}


def compile_go(code, folder):
    path = os.path.join(folder, "main.go")
    with open(path, "w") as f:
        f.write(code)
    return subprocess.run(["go", "build", "-o", os.devnull, path], capture_output=True, timeout=300,
                          env=dict(os.environ, GO111MODULE="off", GOFLAGS="")).returncode == 0


def compilers():
    found = {}
    for language, name, check in (
            ("java", "javac", None), ("go", "go", compile_go),
            ("c", "cc", command("cc", ["-fsyntax-only", "-Werror=implicit",
                                       "-Werror=int-conversion"], "c")),
            ("cpp", "c++", command("c++", ["-fsyntax-only"], "cc"))):
        if shutil.which(name):
            found[language] = check
        else:
            print("skipped: %s as its compiler takes it: no %s" % (language, name))
    return found


def main():
    program, model, *files = sys.argv[1:]
    wanted, lines = {}, []
    for name, language, code, carriers in samples(files):
        for carrier in carriers:
            form, wrap = CARRIERS[carrier]
            if wrap and language not in EXTENSIONS:
                continue
            if carrier == "notebook" and language != "python":
                continue
            text, out = wrap(language, code) if wrap else (code, lambda said: said)
            key = carrier + " " + name
            wanted[key] = (language, code, out)
            lines.append(json.dumps({"id": key, "form": form, "code": text,
                                     "language": language if form == "code" else "text"}))
    run = subprocess.run([program, model], input="\n".join(lines) + "\n", capture_output=True,
                         text=True, check=True)
    counts, wrong, own, compiled = collections.Counter(), [], parsers(), compilers()
    java = []
    with tempfile.TemporaryDirectory() as folder:
        for row in run.stdout.splitlines():
            r = json.loads(row)
            language, code, out = wanted[r["id"]]
            carrier = r["id"].split(" ")[0]
            deeds = {d[0] for d in r["deeds"]}
            if r["weak"]:
                wrong.append((r["id"], "weak", r["text"]))
            if not deeds - {"warned", "known"}:
                continue
            counts[carrier, "held"] += 1
            if "blocked" in deeds:
                counts[carrier, "ended"] += 1
                continue
            try:
                said = out(r["text"])
            except (AssertionError, ValueError, KeyError, IndexError) as e:
                wrong.append((r["id"], "not whole: %s" % type(e).__name__, r["text"]))
                continue
            if carrier == "alone" and r["parses"][0] and not r["parses"][1]:
                wrong.append((r["id"], "does not parse", said))
            check = own.get(language) if carrier == "alone" else None
            if check and check(code, folder) and not check(said, folder):
                wrong.append((r["id"], "its own parser refuses it", said))
            named = language in compiled and r["id"].split(" ")[1] in COMPILED
            takes = compiled[language] if named else None
            counts["compiled"] += named
            if named and not takes:
                java += [(r["id"] + " before", code), (r["id"], said)]
            elif named:
                if not takes(code, folder):
                    wrong.append((r["id"], "the sample itself does not compile", code))
                elif not takes(said, folder):
                    wrong.append((r["id"], "does not compile", said))
        refused = compile_java(java, folder) if java else set()
        wrong += [(key, "does not compile", text) for key, text in java if key in refused]
    for name, why, text in wrong[:20]:
        print("%s: %s:\n%s" % (name, why, text))
    for carrier in CARRIERS:
        held, ended = counts[carrier, "held"], counts[carrier, "ended"]
        print("%s: %d held, %d ended before the line" % (carrier, held, ended))
        if not held or ended > ENDED_MAX * held:
            wrong.append((carrier, "ended", ""))
    print("compiled: %d" % counts["compiled"])
    print("repairs: %d wrong" % len(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
