"""node.py - runs a test written for Node, with a server beside it.

    node.py SCRIPT.mjs CLIENT     CLIENT: install.sh's name for the script's packages

The script gets the server's address, chromium's path, and a key if the server needs one, and
runs where its packages are installed."""

import os
import shutil
import subprocess
import sys

from harness import CLIENTS, MODEL_ID, NODE_BIN, Report, Server, call, line

KEY = "sk-clients-0123456789"
LONG = " ".join("word%d" % i for i in range(3000))
SCRIPT = [
    line("Hello, world.", repeat=True, last="say hello"),
    line("I look.\n" + call("look_up", word="cerium"), repeat=True, role="user", last="look up",
         has_tool="look_up"),
    line("Cerium is a metal.", repeat=True, role="tool", last="metal"),
    line('{"name": "cerium", "degrees": 795}', repeat=True, last="as a record"),
    line(LONG, repeat=True, last="talk for long"),
    line("".join("line %d of many\n" % i for i in range(3000)), repeat=True, last="line by line"),
    line("Three.", repeat=True, last="only three"),
]
# The page is tested with the model's own output, except for lines that the watchdog retracts: those
# are in page.mjs.
ROWS = "Here:\n\n```python\ndef rows(db, name):\n    cursor = db.cursor()\n"
WEAK = "    cursor.execute(\"select * from users where name = '\" + name + \"'\")\n"
SAFE = "    cursor.execute(\"select * from users where name = %s\", (name,))\n"
TAIL = "    return cursor.fetchall()\n```\n\nThat is all.\n"
PAGE_SCRIPT = [{**line(ROWS + WEAK + TAIL, repeat=True, last="the rows of a name"),
                "corrected": [SAFE + TAIL]}]


def main():
    script, client = sys.argv[1:3]
    report = Report(os.path.splitext(script)[0])
    if report.missing(client):
        report.end()
    of_page = client == "playwright"
    with Server(replay=PAGE_SCRIPT if of_page else SCRIPT, context=32768, key=KEY) as server:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), script)
        env = {**os.environ, "CLIENTS": CLIENTS, "SERVER_MODEL": MODEL_ID}
        status = subprocess.call(
            [os.path.join(NODE_BIN, "node"), path, server.url, shutil.which("chromium") or "", KEY],
            env=env, cwd=os.path.join(CLIENTS, "node"))
        if server.process.poll() is not None:
            print("  FAIL %s: the server ended: %s" % (script, server.log()))
            status = 1
    sys.exit(status)


if __name__ == "__main__":
    main()
