#!/usr/bin/env python3
"""check_terminal.py - cerium as a person at a terminal meets it: a conversation, its keys and
commands; escapes only where they are wanted; addresses to listen on.

usage: check_terminal.py CERIUM CHAT_MODEL MAKE_MODEL
Each step waits for what it wants to see; HANG_S only ends what would never end."""
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time

HANG_S = 900
CERIUM, MODEL, MAKE_MODEL = map(os.path.abspath, sys.argv[1:4])
passed = failed = 0


def check(name, good, shown=""):
    global passed, failed
    passed += bool(good)
    failed += not good
    if not good:
        print("  FAIL %s: %r" % (name, shown))


class Terminal:
    """A command with a terminal of its own."""

    def __init__(self, command, ignored=(), **env):
        self.text = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
            env = dict(os.environ, CERIUM_CACHE="off", **env)
            os.execve(command[0], command, env)

    def read(self):
        """More of what it writes; False at the end."""
        if not select.select([self.fd], [], [], HANG_S)[0]:
            os.kill(self.pid, signal.SIGKILL)
            return False
        try:
            got = os.read(self.fd, 65536)
        except OSError:
            got = b""
        self.text += got.decode(errors="replace")
        return bool(got)

    def until(self, wanted):
        """Waits for a pattern in what was not waited for yet; all up to its end is done with."""
        while True:
            found = re.search(wanted, self.text, re.S | re.I)
            if found:
                shown, self.text = self.text[:found.end()], self.text[found.end():]
                return shown
            if not self.read():
                return None

    def until_edited(self):
        """libedit shows the prompt first, and then takes the terminal's keys one by one."""
        while termios.tcgetattr(self.fd)[3] & termios.ICANON:
            time.sleep(0.01)

    def send(self, keys):
        os.write(self.fd, keys.encode())

    def end(self):
        while self.read():
            pass
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def converse(has_editor, folder):
    history = os.path.join(folder, "state", "history")
    command = [CERIUM, "run", "-m", MODEL, "-n", "8", "--guard", "off"]
    t = Terminal(command, TERM="xterm", CERIUM_HISTORY=history)
    t.until("/help lists.*> ")

    def say(keys, wanted):
        t.send(keys + "\r")
        shown = t.until(wanted + r".*\n.*> ")
        check(repr(keys), shown is not None, t.text)

    say("hello", "tokens in")
    say("/hlep", r"did you mean /help\?")
    say("/xyzzy", "see /help")
    say("/help", "forget the conversation")
    say("/again", "tokens in")
    say("/system be brief", "starts again")
    say("/again", "no answer yet")
    say("/usr/bin/env is what?", "tokens in")
    say("//help", "tokens in")
    saved = os.path.join(folder, "talk.md")
    say("/save " + saved, "messages")
    text = open(saved, errors="replace").read()
    whole = "## user\n\n/help\n" in text and "be brief" in text
    check("the conversation is in the file", whole, text)
    say("/save " + saved, "File exists")
    t.send('"""\r')
    t.until(r"\. ")
    t.send("one\r")
    t.until(r"\. ")
    say('two"""', "tokens in")
    t.send("three\\\r")
    t.until(r"\. ")
    say("four", "tokens in")
    say("/clear", "is cleared")
    t.send("given up\x03")
    check("Ctrl-C gives up a line, not the program", t.until(r"\n.*> ") is not None, t.text)
    if has_editor:
        say("/hep\x1b[Dl", "forget the conversation")  # Left
        say("/clearx\x7f", "is cleared")
        say("\x1b[A", "is cleared")  # Up
    t.send("/bye\r")
    check("/bye ends with status 0", t.end() == 0)
    if has_editor:
        check("the history is its owner's alone", os.stat(history).st_mode & 0o777 == 0o600)
        kept = open(history, errors="replace").read()
        check("it has what was typed", "/clear" in kept and "one\\012two" in kept, kept)
        t = Terminal(command, TERM="xterm", CERIUM_HISTORY=history)
        t.until("/help lists.*> ")
        t.send("\x1b[A\r")
        check("another conversation has it", t.end() == 0, "/bye")
    t = Terminal(command, TERM="dumb", CERIUM_HISTORY="off")
    shown = t.until("/help lists.*> ")
    t.send("hello\r")
    shown += t.until(r"tokens in.*\n.*> ") or ""
    t.send("\x04")
    check("a dumb terminal sees no escape", t.end() == 0 and "\x1b" not in shown, shown)


def keys(folder):
    """Pasted text is one message, a tab is a tab, words are jumped over, and files that are no
    history stay."""
    other = os.path.join(folder, "other")
    fifo = os.path.join(folder, "fifo")
    os.mkfifo(fifo)
    with open(other, "w") as f:
        f.write("a file of the user's\n")
    saved = os.path.join(folder, "keys.md")
    for path in (fifo, "/dev/zero", other):
        t = Terminal([CERIUM, "run", "-m", MODEL, "-n", "4", "--guard", "off"], TERM="xterm",
                     CERIUM_HISTORY=path)
        check("no history: " + path, t.until("no history of cerium.*/help lists.*> "), t.text)
        if path != other:
            t.until_edited()  # before that, Ctrl-D is the end of a file, and lost with its line
            t.send("\x04")
            check("and a conversation", t.end() == 0)
    for typed in ("\x1b[200~def f(x):\r\n\treturn x\r\r\x1b[20b\r\x1b[201~ # end", "a\tb",
                  "one two\x1b[1;5Dx\x1b[1;2A\x1b[1;5Cz", "\x1b[200~\x1b[201~nothing"):
        t.until_edited()
        t.send(typed + "\r")
        check(repr(typed), t.until(r"tokens in[^\n]*\n.*> ") is not None, t.text)
    t.send("\x1b[200~never ends\r\x03")
    check("Ctrl-C in a paste", t.until(r"\n.*> ") is not None, t.text)
    t.send("/save %s\r" % saved)
    t.until(r"messages.*> ")
    with open(saved, errors="replace") as f:
        text = f.read()
    for wanted in ("def f(x):\n\treturn x\n\n\x1b[20b # end", "a\tb", "one xtwoz", "nothing"):
        check("a message of it", "## user\n\n%s\n\n" % wanted in text, text)
    t.send("/bye\r")
    check("ends", t.end() == 0)
    with open(other) as f:
        check("the other file is as before", f.read() == "a file of the user's\n")


def restored():
    """A signal that ends the program leaves the terminal as it was."""
    before = termios.tcgetattr(pty.openpty()[1])  # as every new terminal here
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        t = Terminal([CERIUM, "run", "-m", MODEL, "--guard", "off"], TERM="xterm",
                     CERIUM_HISTORY="off")
        t.until("/help lists.*> ")
        t.until_edited()
        os.kill(t.pid, number)
        t.until("2004l")
        after = termios.tcgetattr(t.fd)
        check("%s: the terminal is as before" % number, before == after, after)
        status = t.end()
        check("%s ends the program" % number, status == -number, status)
    t = Terminal([CERIUM, "run", "-m", MODEL, "--guard", "off"], ignored=(signal.SIGHUP,),
                 TERM="xterm", CERIUM_HISTORY="off")
    t.until("/help lists.*> ")
    t.until_edited()
    os.kill(t.pid, signal.SIGHUP)
    t.send("/help\r")
    check("what is ignored stays ignored (nohup)", t.until("forget the conv.*> ") is not None)
    t.until_edited()
    t.send("\x04")
    check("to the end", t.end() == 0)


def steer(folder, term):
    """A line that is typed while an answer comes ends it, and is the next message."""
    model = os.path.join(folder, "steer.gguf")
    subprocess.run([MAKE_MODEL, "--shape", "test-qwen2", "--context", "32768", "-o", model],
                   check=True, capture_output=True)
    n = 30000
    t = Terminal([CERIUM, "run", "-m", model, "-n", str(n), "--ignore-end", "--guard", "off"],
                 TERM=term, CERIUM_HISTORY="off")
    t.until("/help lists.*> ")
    t.send("first\r")
    for turn in ("only three", "no, four", "five"):
        t.text = ""
        while len(t.text) < 2000 and t.read():  # the answer comes
            pass
        t.send(turn + "\r")
        shown = t.until(r"(\d+) tokens at.*?ended for what you typed.*?> ")
        found = re.search(r"(\d+) tokens at", shown or "")
        check("a typed line redirects an answer (%s)" % term, found and int(found[1]) < n, shown)
    saved = os.path.join(folder, "steered-%s.md" % term)
    while len(t.text) < 2000 and t.read():
        pass
    t.send("\x03")
    t.until(r"stopped.*> ")
    t.send("/save %s\r" % saved)
    shown = t.until(r"messages.*> ")
    check("it is saved (%s)" % term, os.path.exists(saved), (shown, t.text[-300:]))
    text = open(saved, errors="replace").read() if os.path.exists(saved) else ""
    users = [one for one in ("first", "only three", "no, four", "five")
             if "## user\n\n%s\n" % one in text]
    check("all of it is the conversation", len(users) == 4 and text.count("## assistant") == 4,
          text[:400])
    t.send("/bye\r")
    check("and it ends as ever", t.end() == 0)
    # What was typed before an answer began waits for its end.
    t = Terminal([CERIUM, "run", "-m", model, "-n", "300", "--ignore-end", "--guard", "off"],
                 TERM=term, CERIUM_HISTORY="off")
    t.until("/help lists.*> ")
    t.send("one\rtwo\r")
    shown = t.until(r"tokens at.*?> .*?tokens at.*?> ") or ""
    check("two lines at once are two turns (%s)" % term,
          shown.count("300 tokens at") == 2 and "ended for" not in shown, shown[-300:])
    t.send("/bye\r")
    t.end()


def interrupt(folder):
    """Ctrl-C stops the answer and nothing else."""
    model = os.path.join(folder, "long.gguf")
    subprocess.run([MAKE_MODEL, "--shape", "test-qwen2", "--context", "32768", "-o", model],
                   check=True, capture_output=True)
    t = Terminal([CERIUM, "run", "-m", model, "-n", "30000", "--ignore-end", "--guard", "off"],
                 TERM="dumb", CERIUM_HISTORY="off")
    t.until("/help lists.*> ")
    stopped = False
    for _ in range(20):  # an answer may be over before the key is seen
        t.send("hello\r")
        t.until(r"hello\r?\n.")
        t.send("\x03")
        shown = t.until(r"tokens in[^\n]*\n.*> ") or ""
        stopped = ", stopped" in shown
        if stopped:
            break
        t.send("/clear\r")
        t.until("is cleared.*> ")
    check("Ctrl-C stops an answer", stopped, t.text)
    t.send("/help\r")
    check("and the talk goes on", t.until("forget the conversation.*> ") is not None, t.text)
    t.send("\x04")
    check("to its end", t.end() == 0)


def escapes(folder):
    place = os.path.join(folder, "x.c")
    with open(place, "w") as f:
        f.write("int add(int a, int b)\n{\n    \n}\n")
    command = [CERIUM, "complete", "--show", "--quiet", "--guard", "off", "-m", MODEL, place + ":3"]

    def shown(**env):
        for name in ("NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
            os.environ.pop(name, None)
        t = Terminal(command, **env)
        while t.read():
            pass
        t.end()
        return t.text

    check("colors on a terminal", "\x1b[" in shown(TERM="xterm"))
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}, {"CLICOLOR": "0"},
                {"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}):
        text = shown(**{"TERM": "xterm", **env})
        check("no escape with %s" % env, "\x1b" not in text, text)
    for env, wanted in (({}, False), ({"CLICOLOR_FORCE": "1"}, True),
                        ({"CLICOLOR_FORCE": "0"}, False)):
        done = subprocess.run(command, capture_output=True, env={**os.environ, **env},
                              stdin=subprocess.DEVNULL, check=False)
        check("into a pipe with %s" % env, (b"\x1b" in done.stdout) == wanted, done.stdout)


def addresses():
    serve = [CERIUM, "serve", "-m", MODEL, "--guard", "off"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for host in ("127.0.0.1", "localhost"):
            done = subprocess.run([*serve, "--host", host, "--port", str(port)], text=True,
                                  capture_output=True, timeout=HANG_S, check=False)
            said = done.stderr.strip().split("\n")[-1]
            check("a port in use, by " + host, done.returncode == 1 and
                  re.search(r"port %d of %s is in use: --port \d+$" % (port, host), said), done)
    with subprocess.Popen([*serve, "--host", "localhost", "--port", "0"], text=True,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as server:
        url = None
        for line in server.stderr:
            url = re.search(r"http://(localhost):(\d+)", line)
            if url:
                break
        check("a name is listened on", url is not None)
        if url:
            with socket.create_connection((url[1], int(url[2])), timeout=HANG_S) as s:
                s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                check("and answers", s.recv(100).startswith(b"HTTP/1.1 200"))
        server.terminate()
        server.stderr.read()
    check("and ends", server.returncode == 0, server.returncode)
    with subprocess.Popen([*serve, "--host", "[::1]", "--port", "0"], text=True,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as server:
        line = next((row for row in server.stderr if "listening" in row or "cannot" in row), "")
        check("an address in brackets is the address", re.search(
            r"http://\[::1\]:\d+ |no such address", line), line)
        server.terminate()
        server.stderr.read()


def main():
    linked = subprocess.run(["ldd", CERIUM], capture_output=True, text=True, check=False).stdout
    has_editor = "libedit" in linked
    with tempfile.TemporaryDirectory() as folder:
        converse(has_editor, folder)
        if os.path.exists(MAKE_MODEL):
            interrupt(folder)
            steer(folder, "dumb")
            if has_editor:
                steer(folder, "xterm")
                keys(folder)
                restored()
        else:
            print("skipped: Ctrl-C in an answer: no %s" % MAKE_MODEL)
        escapes(folder)
    addresses()
    if not has_editor:
        print("skipped: keys and the history of a conversation: built without libedit")
    print("terminal: %d passed, %d failed" % (passed, failed))
    return failed != 0


sys.exit(main())
