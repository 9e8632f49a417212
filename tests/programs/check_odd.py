#!/usr/bin/env python3
"""check_odd.py - every command line of odd_inputs.txt has its exit status and says what it should;
none crashes, hangs, or leaves half a file.

usage: check_odd.py CERIUM MODEL LIST"""
import os
import subprocess
import sys
import tempfile

HANG_S = 900  # far beyond what any of them takes, on a loaded machine too
SECRET = "AKIA" + "QYLPMN5HHHFPZAM2"  # in pieces, so that this file passes
NAME = os.fsdecode(b"caf\xe9")


def write(path, text):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())


def make_folder(model):
    weak = "key = '%s'\n" % SECRET
    data = open(model, "rb").read()
    write("text.c", "int add(int a, int b)\n{\n    return a + b;\n}\n" * 4)
    write("weak.txt", weak)
    write("empty", "")
    write("comments.keys", "# none yet\n\n   \n")
    write("nul.txt", b"a\0b\n")
    write("long.txt", "word " * 200000)
    write("broken.gguf", "GGUF is not all")
    write("cut.gguf", data[:4000])
    write("model.gguf", data)
    write(NAME + ".c", "int x;\n")
    write(NAME + ".gguf", data)
    os.mkdir("folder")
    write("tree/weak.txt", weak)
    write("tree/" + NAME + ".txt", weak)
    write("tree/left.txt", weak)
    write("tree/.gitignore", "left.txt\n")
    os.mkdir("pipes")
    os.symlink("..", "pipes/up")
    make_deep(1010)
    os.symlink("loop", "loop")
    os.symlink("nowhere", "dangling")
    write("zero.gguf", b"GGUF\3\0\0\0" + bytes(16))
    write("huge.gguf", b"GGUF\3\0\0\0" + b"\xff" * 16)
    write("a:3:4.c", "int x;\n")
    write("-dash.c", "int x;\n")
    write("wide.py", "import os\nos.system(input())\n".encode("utf-16"))
    write("wide/Wide.java", "class Wide { }\n".encode("utf-16-le"))
    write("wide/picture.png", b"\x89PNG\0\0\0")
    for part in (1, 3):
        write("shards/model-0000%d-of-00003.safetensors" % part, b"\2\0\0\0\0\0\0\0{}")
    for name in ("config", "tokenizer", "tokenizer_config"):
        write("shards/%s.json" % name, "{}")
    write("accent.py", "x = \u00e9(\n")
    write("latin.txt", b"a = '\xe9'\n")
    write("nul.keys", b"first\n\0\nsecond\n")
    write("blank.keys", "first second\n")
    write("bom.keys", "\ufeff\r\n \r\n#\r\n")
    write("nul.ini", b"[server]\nport = 8001\0\n")
    write("float.ini", "[server]\nport = 8e3\n")
    write("lone.ini", "port = 1\n")
    write("open.ini", "[server\nport = 1\n")
    write("tier.ini", "[tier x]\ntokens-per-minute = 1_000\n")
    write("ftp.ini", "[upstream u]\nurl = ftp://x\nmodels = a\n")
    write("section.ini", "[nothing]\na = 1\n")
    write("near.ini", "[server]\nprot = 1\n")
    write("bad.ini", "[server]\nport = 99999\n")
    write("short.jsonl", '{"path": "a.py", "text": "x = 1\\ny = 2\\n"}\n')
    write("server.ini", "[server]\nport = 8001\n")
    write("names/e\033.py", "import os\nos.systm(1)\n")
    write("unreadable.jsonl", b"\xff\xfe unreadable\n")
    write("bad.jsonl", '{"id": 1}\n')
    write("change.diff", "diff --git a/src/a.txt b/src/a.txt\n--- a/src/a.txt\n+++ b/src/a.txt\n"
          "@@ -40,2 +40,3 @@\n one\n+%s two\n" % weak)
    write("plain.diff", "--- old/a.txt\t2026-01-01\n+++ a.txt\t2026-01-02\n@@ -1,2 +1,3 @@\n one\n"
          "+%s two\n" % weak)
    write("merge.diff", "diff --cc a.txt\n--- a/a.txt\n+++ b/a.txt\n@@@ -7,2 -7,2 +7,4 @@@\n  one\n"
          "- gone\n++%s two\n +%s three\n" % (weak, weak))
    write("mail.patch", "From 0123 Mon Sep 17 00:00 2001\nFrom: A <a@b.c>\n\n---\n a.txt | 1 +\n\n"
          "--- a/a.txt\n+++ b/a.txt\n@@ -3 +3,2 @@\n one\n+%s two\n" % weak)
    write("context.diff", "*** a.txt\n--- b.txt\n***************\n*** 1 ****\n--- 1,2 ----\n  a\n"
          "+ %s b\n" % weak)
    write("patches/change.diff", open("change.diff").read())
    write("renamed.diff", "diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n")
    write("empty.diff", "")


def make_deep(levels):
    """A folder in a folder in a folder..."""
    at = os.open(".", os.O_RDONLY)
    for i in range(levels):
        name = "d" if i else "deep"
        os.mkdir(name, dir_fd=at)
        below = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)


def rows(path):
    for line in open(path, encoding="utf-8"):
        line = line.rstrip("\n")
        if line and not line.startswith("#"):
            status, said, command = line.split(" ~ ")
            yield int(status), said.replace("\\\\", "\\"), command.replace("\\\\", "\\")


def fault(status, said, command, env):
    try:
        done = subprocess.run(["sh", "-c", command], env=env, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=HANG_S)
    except subprocess.TimeoutExpired:
        return "it hangs"
    text = (done.stdout + done.stderr).decode(errors="replace")
    if " solve " in command and "no strict sandbox here" in text and done.returncode == 1:
        print("skipped: %s: no sandbox here" % command)
        return None
    if done.returncode != status:
        return "status %d, not %d: %s" % (done.returncode, status, text[:300])
    if said.startswith("^") and not text.startswith(said[1:]):
        return "begins otherwise: " + text[:300]
    if not said.startswith("^") and said.replace("\\x", "\\\\x") not in text and said not in text:
        return "does not say '%s': %s" % (said, text[:300])
    if os.path.exists("out") or any(".part" in name or ".new" in name for name in os.listdir()):
        return "half a file is left"
    return None


def main():
    cerium, model, path = map(os.path.abspath, sys.argv[1:4])
    env = dict(os.environ, C=cerium, M=model, CERIUM_MODEL=model, CERIUM_CACHE="off", TERM="dumb")
    for name in ("CERIUM_STORE", "CERIUM_CONFIG", "CERIUM_API_KEY", "NO_COLOR"):
        env.pop(name, None)
    env["N"] = NAME
    n = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        env["CERIUM_MODELS"] = os.path.join(folder, "models")
        make_folder(model)
        for status, said, command in rows(path):
            why = fault(status, said, command, env)
            n += 1
            failed += why is not None
            if why:
                print("%s: %s" % (command, why))
        subprocess.run(["rm", "-rf", "deep"], check=True)  # too deep for this library
        os.chdir("/")
    print("%d odd inputs, %d failed" % (n, failed))
    return failed != 0


sys.exit(main())
