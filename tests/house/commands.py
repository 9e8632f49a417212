"""commands.py - the commands of the pages and of the man page: in blocks of any kind, over several
lines, and in prose and tables.  Their options are those that the program has; those in blocks run
as far as they can here, and what a page shows of their output is what they print.

    commands.py PROGRAM       in the root of the source tree"""

import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading

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
    (r"resp_\.\.\.", "it names no response"),
]
PORT, METRICS = 8383, 9383  # of `cerium serve`, and --metrics-listen in the pages
SECONDS = 300  # for a command that must end; never a measure of speed
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


SHELLS = ("sh", "bash", "shell", "console")
COMMAND = r"(?:^|\| |<\()(?:\./)?cerium (?:--)?[a-z]"


def joined(lines):
    """(number, command, lines) of lines that continue others: after a backslash, in quotes."""
    n = 0
    while n < len(lines):
        text, first = lines[n], n
        while n + 1 < len(lines) and open_ended(text):
            n += 1
            text = text[:-1].rstrip() + " " + lines[n].strip() if text.endswith("\\") \
                else text + "\n" + lines[n]
        yield first, text, n + 1 - first
        n += 1


def open_ended(text):
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return True
    return text.endswith("\\")


def of_block(kind, lines):
    """(number, command, output or None) of the lines of one block.  With `$ `, all others are
    output; without it a block in another language than a shell's has commands of cerium only."""
    prompts = [n for n, text in enumerate(lines) if text.startswith("$ ")]
    for n, end in zip(prompts, prompts[1:] + [len(lines)]):
        _, text, used = next(joined([lines[n][2:]] + lines[n + 1:end]))
        yield n, text, lines[n + used:end]
    for n, text, _ in joined(lines) if not prompts and kind in SHELLS else []:
        if text.strip():
            yield n, text, None
    if not prompts and not kind:
        for n, text in enumerate(lines):
            if re.search(COMMAND, text) and not text.startswith("cerium: "):
                yield n, text, None


def parts(page):
    """(first line, kind or None for prose, lines, what leads to it) of a Markdown page."""
    kind, lines, first, lead, last = None, [], 0, "", ""
    for n, text in enumerate(page.split("\n") + [""], 1):
        fence = re.match(r" {0,3}```(\S*)$", text)
        indented = kind in (None, " ") and text.startswith("    ") and \
            (kind == " " or not last.strip())
        if fence and kind in (None, " "):
            yield first, kind, lines, lead
            kind, lines, first, lead = fence.group(1), [], n + 1, lead_of(lines)
        elif fence:
            yield first, kind, lines, lead
            kind, lines, first = None, [], n + 1
        elif indented and kind is None:
            yield first, kind, lines, lead
            kind, lines, first, lead = " ", [text[4:]], n, lead_of(lines)
        elif kind == " " and text.strip() and not text.startswith("    "):
            yield first, kind, lines, lead
            kind, lines, first = None, [text], n
        else:
            lines.append(text[4:] if kind == " " else text)
        last = text
    yield first, kind, lines, lead


def lead_of(lines):
    """The command of a paragraph such as "`cerium wafer plan`:", whose output follows."""
    text = next((line for line in reversed(lines) if line.strip()), "")
    found = re.match(r"`((?:\./)?cerium [^`]+)`:$", text)
    return found.group(1) if found else ""


def blocks(page):
    """(line, command, output or None, whether it is run) of a Markdown page."""
    for first, kind, lines, lead in parts(page):
        if kind is None:
            for n, text in enumerate(lines):
                for named in re.findall(r"`((?:\./)?cerium [a-z]+ [^`]+)`", text):
                    yield first + n, named, None, False
            continue
        if lead and not kind.strip():
            yield first - 2, lead, lines, True
            continue
        for n, text, output in of_block(kind.strip(), lines):
            yield first + n, text, output, True


def of_man(page):
    for n, text in enumerate(page.split("\n"), 1):
        if text.startswith(".Dl "):
            yield n, re.sub(r"^\.Dl (\$ )?", "", text).replace(r"\-", "-"), None, True


def commands():
    """(place, command, output or None, whether it is run) of cerium, or of curl for its server."""
    pages = ["man/cerium.1"] + glob.glob("*.md") + glob.glob("docs/*.md")
    pages += glob.glob("models/*.md") + glob.glob("training/*.md") + glob.glob("editors/*/*.md")
    for path in sorted(set(pages) - {"CHANGELOG.md"}):
        with open(path) as f:
            page = f.read()
        for n, text, output, runs in of_man(page) if path.startswith("man/") else blocks(page):
            text = re.sub(r"\s+#\s.*", "", text).replace("./cerium ", "cerium ")
            if re.search(COMMAND, text) or text.startswith("curl ") or output:
                yield "%s:%d" % (path, n), text, output, runs


def unknown_options(text):
    """Options of the command that its --help does not have."""
    words = re.search(r"\bcerium ((wafer )?[a-z]+|(?=--))(.*)", text, re.S)
    if not words:
        return ""
    help_text = subprocess.run([PROGRAM, *words.group(1).split(), "--help"], capture_output=True,
                               text=True)
    if help_text.returncode:
        return "there is no `cerium %s`" % words.group(1)
    known = set(re.findall(r"--[a-z-]+", help_text.stdout)) | {"--help"}
    known |= set(re.findall(r"(?<![\w-])-[a-zA-Z](?![\w-])", help_text.stdout))
    parser = shlex.shlex(words.group(3), posix=True, punctuation_chars="|>)")
    parser.whitespace_split = True
    used = []
    for word in parser:
        if word[0] in "|>)":
            break
        if re.match(r"--?[a-zA-Z]", word):
            used.append(word.split("=")[0].rstrip(","))
    return [w for w in used if w not in known]


def until_listening(text, folder, env):
    """A server ends when it has said where it listens, however long that takes."""
    err = ""
    with subprocess.Popen(["bash", "-c", text], cwd=folder, env=env, stderr=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True,
                          errors="replace") as process:
        patience = threading.Timer(SECONDS, process.kill)
        patience.start()
        for line in process.stderr:
            err += line
            if "event=listening" in line:
                process.terminate()
        patience.cancel()
    return process.returncode, "", err


def run(text, folder):
    """(status, standard output, standard error); a server is recognized by the address that it
    prints."""
    env = {**os.environ, "PATH": os.path.dirname(PROGRAM) + os.pathsep + os.environ["PATH"],
           "HOME": folder, "CERIUM_CACHE": "off"}
    if " serve" in text:
        return until_listening("exec %s --port 0" % text.replace(":9383", ":0"), folder, env)
    done = subprocess.run(["bash", "-c", text], cwd=folder, env=env, capture_output=True,
                          text=True, errors="replace", timeout=SECONDS,
                          stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


class Server:
    """The one that a page's curl asks."""

    def __init__(self, folder, solves):
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "--port", "0"] + ["--solve"] * bool(solves), cwd=folder,
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
            env={**os.environ, "HOME": folder, "CERIUM_CACHE": "off"})
        for line in self.process.stderr:
            found = re.search(r"event=listening url=\S*:(\d+)", line)
            if found:
                self.port = int(found.group(1))
                break
        if self.process.poll() is not None:
            sys.exit("commands: no server: %s" % line)
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def end(self):
        self.process.terminate()
        self.process.wait()


def absent(text):
    """A program of the command that this machine does not have, or nothing."""
    for name in re.findall(r"(?:^|\| |<\()([a-z][\w-]*)(?= )", text):
        if name != "cerium" and not shutil.which(name) and subprocess.run(
                ["bash", "-c", "type " + name], check=False, capture_output=True).returncode:
            return name
    return ""


def other_port(text):
    """A command that asks this machine asks the port that `cerium serve` has by default."""
    ports = re.findall(r"(?:localhost|127\.0\.0\.1):(\d+)", text)
    return [p for p in ports if int(p) not in (PORT, METRICS)] if " serve" not in text else ""


def same(line):
    """A line without measured values."""
    return re.sub(r"[0-9.,]+ tokens/s", "N tokens/s", line.rstrip())


def try_one(text, output, folder):
    """The fault in what it does, or nothing."""
    status, out, err = run(text, folder)
    if " serve" in text:
        return "" if "event=listening" in err else (status, err)
    fails = any(line.startswith("cerium: ") for line in output or [])
    if status not in ((0, 1) if " scan " in text else (int(fails),)):
        return "status %d: %s" % (status, err[-500:])
    into = re.search(r" > (\S+)$", text)
    if into:
        with open(os.path.join(folder, into.group(1))) as f:
            out += f.read()
    if not (out + err).strip() and not text.startswith("git diff "):  # nothing is changed here
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
        server = Server(folder, nests)
        for place, text, output, runs in commands():
            if " solve " in text and not nests:
                print("skipped: %s: no namespaces for bubblewrap here" % text)
                continue
            n += 1
            check("%s: options of `%s`" % (place, text), unknown_options(text))
            check("%s: port of `%s`" % (place, text), other_port(text))
            why = next((why for pattern, why in SKIPPED if re.search(pattern, text)), None)
            if why or not runs:
                continue
            lacks = absent(text)
            if lacks:
                print("skipped: %s: there is no %s here" % (text.split("\n")[0], lacks))
                continue
            text = text.replace(":%d" % PORT, ":%d" % server.port)
            check("%s: `%s`" % (place, text), try_one(text, output, folder))
        server.end()
        check("commands are found", "" if n > 60 else "only %d" % n)
    print("commands: %d passed, %d failed" % (passed, failed))
    sys.exit(failed != 0)


main()
