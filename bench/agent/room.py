"""room.py - a place for an agent and its task without docker: a folder that bubblewrap makes its /,
with the programs of this machine below /usr.

A task is in Harbor's form (Terminal-Bench 2's): instruction.md, task.toml, environment/,
solution/solve.sh, tests/test.sh, which writes the reward.  A room does the part of
environment/Dockerfile that these tasks need: COPY files/ /app/.

It separates runs, but it is not a security boundary: an agent in it has the network."""

import os
import shutil
import signal
import subprocess

PLACES = ("app", "logs/agent", "logs/verifier", "logs/artifacts", "tests", "solution", "tmp",
          "root", "installed-agent", "usr", "etc", "proc", "dev", "node_modules")
LINKS = ("bin", "sbin", "lib", "lib64")
ETC = ("alternatives", "ca-certificates", "group", "hosts", "ld.so.cache", "ld.so.conf",
       "ld.so.conf.d", "localtime", "nsswitch.conf", "passwd", "resolv.conf", "ssl")


class Room:
    def __init__(self, folder, task, node=None):
        """node: a node_modules folder whose programs are in its PATH."""
        self.folder, self.task = str(folder), str(task)
        self.node = node

    def start(self):
        for place in PLACES:
            os.makedirs(os.path.join(self.folder, place), exist_ok=True)
        for name in LINKS:
            if os.path.islink("/" + name):
                os.symlink(os.readlink("/" + name), os.path.join(self.folder, name))
        self.put(os.path.join(self.task, "environment", "files"), "/app")

    def stop(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, inside):
        """The host's path for a path of the room.  No link of the room leads out of it."""
        folder = os.path.realpath(self.folder)
        path = os.path.realpath(os.path.join(folder, str(inside).lstrip("/")))
        if path != folder and not path.startswith(folder + "/"):
            raise ValueError("%s is not in the room" % inside)
        return path

    def put(self, source, inside):
        """A file, or the contents of a folder."""
        copy(str(source), self.path(inside))

    def take(self, inside, target):
        copy(self.path(inside), str(target))

    def command(self, text, cwd=None, env=None):
        words = ["bwrap", "--die-with-parent", "--new-session", "--unshare-user", "--uid", "0",
                 "--gid", "0", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--cap-drop",
                 "ALL", "--clearenv", "--bind", self.folder, "/", "--ro-bind", "/usr", "/usr",
                 "--proc", "/proc", "--dev", "/dev"]
        for name in LINKS:
            if os.path.isdir("/" + name) and not os.path.islink("/" + name):
                words += ["--ro-bind", "/" + name, "/" + name]
        for name in ETC:
            words += ["--ro-bind-try", "/etc/" + name, "/etc/" + name]
        path = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        if self.node:
            words += ["--ro-bind", self.node, "/node_modules"]
            path = "/node_modules/.bin:" + path
        settings = {"HOME": "/root", "PATH": path, "TMPDIR": "/tmp", "LC_ALL": "C.UTF-8",
                    "TERM": "dumb", **(env or {})}
        for name, value in settings.items():
            words += ["--setenv", name, str(value)]
        return words + ["--chdir", str(cwd or "/app"), "bash", "-c", text]

    def run(self, text, cwd=None, env=None, seconds=300):
        """(status, output of both streams); 124 on a timeout."""
        process = subprocess.Popen(self.command(text, cwd, env), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, errors="replace", start_new_session=True)
        try:
            out, _ = process.communicate(timeout=seconds)
            return process.returncode, out
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, _ = process.communicate()
            return 124, out

    def solve(self):
        """Runs the author's solution."""
        self.put(os.path.join(self.task, "solution"), "/solution")
        return self.run("bash /solution/solve.sh")

    def judge(self):
        """(the reward, output of the checks)."""
        self.put(os.path.join(self.task, "tests"), "/tests")
        status, out = self.run("bash /tests/test.sh")
        try:
            with open(self.path("/logs/verifier/reward.txt")) as f:
                reward = float(f.read())
            with open(self.path("/logs/verifier/checks.txt"), errors="replace") as f:
                return reward, f.read()
        except (OSError, ValueError) as error:
            return 0.0, "no reward: %s: status %d: %s" % (error, status, out)


def copy(source, target):
    if os.path.isdir(source):
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy2(source, target)


def lacks():
    """The reason why rooms cannot work here, or None."""
    if not shutil.which("bwrap"):
        return "there is no bubblewrap"
    done = subprocess.run(["bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/",
                           "--proc", "/proc", "true"], capture_output=True, text=True)
    return " ".join(done.stderr.split())[:300] if done.returncode else None
