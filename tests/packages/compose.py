"""compose.py - properties of every service of the compose file; and the options of its commands are
those of `cerium`.

    CERIUM=program compose.py FILE"""

import os
import re
import subprocess
import sys

import yaml

FAULTS = []


def need(what, name, why):
    if not what:
        FAULTS.append("%s: %s" % (name, why))


def seconds(text):
    return int(re.fullmatch(r"(\d+)s", text).group(1))


def check_options(name, command):
    known = subprocess.run([os.environ["CERIUM"], command[0], "--help"], capture_output=True,
                           text=True, check=True).stdout
    for word in command[1:]:
        need(not word.startswith("--") or word in known, name, word + " is no option")


def main(path):
    with open(path) as f:
        services = yaml.safe_load(f)["services"]
    for name, s in services.items():
        for key in ("read_only", "cap_drop", "security_opt", "mem_limit"):
            need(s.get(key), name, key)
        need(all(p.startswith("127.0.0.1:") for p in s.get("ports", [])), name, "it is published")
        if "cerium" not in s["image"].lower():
            continue
        if "CERIUM" in os.environ:
            check_options(name, s["command"])
        if s["command"][0] != "serve":
            continue
        for key in ("stop_grace_period", "healthcheck"):
            need(key in s, name, key)
        words = s["command"]
        duck = words[words.index("--lame-duck") + 1] if "--lame-duck" in words else 0
        need("stop_grace_period" in s and seconds(s["stop_grace_period"]) > int(duck) + 30, name,
             "it is killed before answers end")
        need(s.get("user") == "65532:65532", name, "user")
    need(len(services) > 3, "services", "few")
    print("\n".join(FAULTS) or "%d services" % len(services))
    return bool(FAULTS)


sys.exit(main(sys.argv[1]))
