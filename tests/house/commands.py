"""commands.py - the commands of README.md, docs/*.md and the man page: each is extracted, its
options exist in the program, and all commands that can run here are run.  Output that a page shows
is what they print.

    commands.py PROGRAM       in the root of the source tree"""

import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(sys.argv[1])
# Reasons why a command does not run here.  All others run.
SKIPPED = [
    (r" pull ", "it needs a network"),
    (r" (-m|small=|large=) ?(qwen|instruct|model)|=qwen", "it needs a model that is not here"),
    (r" --deep ", "it needs another server"),
    (r"^cerium bench", "it takes minutes"),
    (r"--tls-cert", "it needs a certificate"),
    (r"^cerium health", "it needs a server; tests/server/check_replica.py has one"),
    (r"--workspace ~", "it needs a folder of the user's"),
    (r"^cerium convert Qwen", "it needs a model that is not in the repository"),
    (r"^cerium wafer validate", "tests/programs/test_wafer.sh runs it"),
    (r"^cerium lsp", "an editor speaks to it: tests/lsp runs it"),
]
SECONDS = 300  # a bound on time; never a measure of speed
WEAK = "import os\ndef show(folder):\n    os.system('ls -l ' + folder)\n"
KEYS = "key-of-these-tests\n"
INI = "[server]\nstore = store.db\n[tier pro]\n"
passed = failed = 0


def check(name, why):
    """why: the fault, or nothing."""
    global passed, failed
    passed, failed = passed + (not why), failed + bool(why)
    if why:
        print("  FAIL %s: %s" % (name, " ".join(str(why).split())[:600]))


def blocks(page):
    """(line, command, output or None) of a page: lines of ```sh blocks, and of `$ ` in indented
    ones, with their output."""
    inside, lines = False, page.split("\n")
    for n, text in enumerate(lines, 1):
        if text.startswith("```"):
            inside = text == "```sh"
        elif inside and text.strip():
            yield n, text, None
        elif text.startswith("    $ "):
            output = []
            for more in lines[n:]:
                if not more.startswith("    ") or more.startswith("    $ "):
                    break
                output.append(more[4:])
            yield n, text[6:], output
        elif text.startswith((".Dl cerium", ".Dl $ cerium")):
            yield n, re.sub(r"^\.Dl (\$ )?", "", text).replace(r"\-", "-"), None


def commands():
    pages = ["README.md", "man/cerium.1"] + sorted(glob.glob("docs/*.md"))
    for path in pages:
        with open(path) as f:
            for n, text, output in blocks(f.read()):
                text = re.sub(r"\s+#\s.*", "", text).replace("./cerium ", "cerium ")
                if re.search(r"\bcerium [a-z]", text) and not text.startswith("curl"):
                    yield "%s:%d" % (path, n), text, output


def unknown_options(text):
    """Options of the command that its --help does not have."""
    words = re.search(r"\bcerium ((wafer )?[a-z]+)(.*)", text)
    help_text = subprocess.run([PROGRAM, *words.group(1).split(), "--help"], capture_output=True,
                               text=True)
    if help_text.returncode:
        return "there is no `cerium %s`" % words.group(1)
    known = set(re.findall(r"--[a-z-]+", help_text.stdout)) | {"--help"}
    known |= set(re.findall(r"(?<![\w-])-[a-zA-Z](?![\w-])", help_text.stdout))
    used = [w.split("=")[0] for w in shlex.split(words.group(3).split("|")[0].split(">")[0])
            if re.match(r"--?[a-zA-Z]", w)]
    return [w for w in used if w not in known]


def run(text, folder):
    """(status, standard output, standard error); a server is recognized by the address that it
    prints."""
    env = {**os.environ, "PATH": os.path.dirname(PROGRAM) + os.pathsep + os.environ["PATH"],
           "HOME": folder, "CERIUM_CACHE": "off"}
    if " serve" in text:
        text = "timeout -s TERM 5 %s --port 0" % text.replace(":9383", ":0")
    done = subprocess.run(["bash", "-c", text], cwd=folder, env=env, capture_output=True,
                          text=True, errors="replace", timeout=SECONDS,
                          stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def same(line):
    """A line without measured values."""
    return re.sub(r"[0-9.,]+ tokens/s", "N tokens/s", line.rstrip())


def try_one(text, output, folder):
    """The fault in what it does, or nothing."""
    status, out, err = run(text, folder)
    if " serve" in text:
        return "" if "event=listening" in err else (status, err)
    if status not in ((0, 1) if " scan " in text else (0,)):
        return "status %d: %s" % (status, err[-500:])
    into = re.search(r" > (\S+)$", text)
    if into:
        with open(os.path.join(folder, into.group(1))) as f:
            out += f.read()
    if not (out + err).strip():
        return "it prints nothing"
    if output is None:
        return ""
    printed = [same(line) for line in (out + "\n" + err).split("\n")]
    missing = [line for line in output if line.strip() and same(line) not in printed]
    return "it does not print %r, but %r" % (missing, printed[:12]) if missing else ""


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name in os.listdir("."):
            if name not in ("build", "cerium", "examples") and not name.startswith("."):
                os.symlink(os.path.abspath(name), os.path.join(folder, name))
        shutil.copytree("examples", os.path.join(folder, "examples"))
        with open(os.path.join(folder, "shop.py"), "w") as f:
            f.write(WEAK)
        with open(os.path.join(folder, "keys"), "w") as f:
            f.write(KEYS)
        with open(os.path.join(folder, "cerium.ini"), "w") as f:
            f.write(INI)
        subprocess.run(["git", "init", "-q", folder], check=False)
        nests = shutil.which("bwrap") and not subprocess.run(
            ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"], check=False).returncode
        # A few files are enough for commands that read a whole repository.
        subprocess.run(["git", "-C", folder, "add", "examples", "shop.py"], check=False)
        n = 0
        for place, text, output in commands():
            if " solve " in text and not nests:
                print("skipped: %s: no namespaces for bubblewrap here" % text)
                continue
            n += 1
            check("%s: options of `%s`" % (place, text), unknown_options(text))
            why = next((why for pattern, why in SKIPPED if re.search(pattern, text)), None)
            if why:
                continue
            check("%s: `%s`" % (place, text), try_one(text, output, folder))
        check("commands are found", "" if n > 20 else "only %d" % n)
    print("commands: %d passed, %d failed" % (passed, failed))
    sys.exit(failed != 0)


main()
