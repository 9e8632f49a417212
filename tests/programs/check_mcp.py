"""check_mcp.py - `cerium mcp` over its pipes, line by line, and by the `mcp` package's own client
where that can be had."""

import json
import os
import subprocess
import sys
import tempfile
import time

CERIUM = os.path.abspath(sys.argv[1])
passed = failed = 0
MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
          "io.modelcontextprotocol/clientCapabilities": {}}


def check(name, good, shown=""):
    global passed, failed
    passed += bool(good)
    failed += not good
    print("  %s %s" % ("ok  " if good else "FAIL", name))
    if not good:
        print("       ", str(shown)[:600])


class Client:
    def __init__(self, folder):
        self.process = subprocess.Popen([CERIUM, "mcp", "--root", folder], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.n = 0

    def line(self, text):
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def read(self):
        return json.loads(self.process.stdout.readline())

    def ask(self, method, **params):
        """The answer, and the notifications before it."""
        self.n += 1
        self.line(json.dumps({"jsonrpc": "2.0", "id": self.n, "method": method, "params": params}))
        notes = []
        while True:
            m = self.read()
            if m.get("id") == self.n:
                return m, notes
            notes.append(m)

    def call(self, tool, meta=None, **arguments):
        more = {"_meta": meta} if meta else {}
        return self.ask("tools/call", name=tool, arguments=arguments, **more)

    def begin(self, version="2025-11-25"):
        return self.ask("initialize", protocolVersion=version, capabilities={},
                        clientInfo={"name": "t", "version": "1"})[0]

    def end(self):
        self.process.stdin.close()
        return self.process.wait(60)


def text_of(answer):
    return answer["result"]["content"][0]["text"]


def is_error(answer):
    return answer.get("result", {}).get("isError")


def files(folder):
    def put(name, text):
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
    put("add.py", "def add(a, b):\n    return a - b\n\n\nclass Adder:\n    total = add(1, 2)\n")
    put("tests.py", "assert add(2, 3) == 5\nassert add(0, 7) == 7\n")
    put("never.py", "assert False\n")
    put("lib/ring.c", "int ring_put(ring *r)\n{\n    return ring_take(r);\n}\n\n"
        "int ring_take(ring *r);\n")


def check_protocol(folder):
    c = Client(folder)
    check("tools come after the handshake", c.ask("tools/list")[0]["error"]["code"] == -32600)
    a = c.begin()
    check("the handshake", a["result"]["protocolVersion"] == "2025-11-25" and
          a["result"]["capabilities"] == {"tools": {}}, a)
    check("only once", c.begin()["error"]["code"] == -32600)
    names = [t["name"] for t in c.ask("tools/list")[0]["result"]["tools"]]
    check("three tools", names == ["solve", "search", "related"], names)
    check("ping", c.ask("ping")[0]["result"] == {})
    for text, code in [("{", -32700), ("[]", -32600), ("7", -32600), ('{"id":1}', -32600),
                       ('{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
                       ('{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
                       ('{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700),
                       ('{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32602),
                       ('{"jsonrpc":"2.0","id":1,"method":"no/such"}', -32601),
                       ('"' + "x" * (5 << 20) + '"', -32600)]:
        c.line(text)
        a = c.read()
        check("refused: " + text[:50], a.get("error", {}).get("code") == code, a)
    check("an unknown tool", c.call("nothing")[0]["error"]["code"] == -32602)
    for why, arguments in [("path is missing", {}), ("no such argument", {"path": "a", "x": 1}),
                           ("out of range", {"path": "add.py", "line": 0}),
                           ("not of its type", {"path": 7}), ("need a line",
                           {"path": "add.py", "column": 1}), ("no such file", {"path": "nowhere"}),
                           ("not in the workspace", {"path": "/etc/passwd"}),
                           ("not in the workspace", {"path": "../" * 20 + "etc/passwd"}),
                           ("cannot begin", {"path": "--version"}),
                           ("not in the workspace", {"path": "add.py", "test_file": "/etc/passwd"}),
                           ("no tests", {"path": "add.py"})]:
        a = c.call("solve", **arguments)[0]
        check("told: %s" % arguments, is_error(a) and why in text_of(a), a)
    check("it ends with its input", c.end() == 0)
    c = Client(folder)
    a = c.begin("1999-01-01")
    check("an unknown version gets the newest of the handshake",
          a["result"]["protocolVersion"] == "2025-11-25", a)
    c.end()


def check_modern(folder):
    c = Client(folder)
    a = c.ask("server/discover", _meta=MODERN)[0]["result"]
    check("discover", "2026-07-28" in a["supportedVersions"] and a["resultType"] == "complete" and
          "io.modelcontextprotocol/serverInfo" in a["_meta"], a)
    a = c.ask("tools/list", _meta=MODERN)[0]["result"]
    check("a list that may be kept", a["ttlMs"] > 0 and a["cacheScope"] == "public", a)
    other = dict(MODERN, **{"io.modelcontextprotocol/protocolVersion": "2030-01-01"})
    a = c.ask("tools/list", _meta=other)[0]["error"]
    check("another version", a["code"] == -32022 and "2026-07-28" in a["data"]["supported"], a)
    a = c.call("search", meta=MODERN, name="add")[0]["result"]
    check("a call without a handshake", a["resultType"] == "complete" and not a["isError"], a)
    c.end()


def check_search(folder):
    c = Client(folder)
    c.begin()
    a = c.call("search", name="add")[0]
    check("the definition comes first", text_of(a).startswith("add.py:1 (definition)\n") and
          "def add(a, b):" in text_of(a), a)
    check("and its uses", "add.py:6\n" in text_of(a) and "tests.py:1\n" in text_of(a), a)
    check("whole words alone", "Adder" not in text_of(a).split("\n")[1], a)
    a = c.call("search", name="ring_put")[0]
    check("a function of C", text_of(a).startswith("lib/ring.c:1 (definition)"), a)
    a = c.call("search", name="ring_take")[0]
    check("a declaration is no definition", "(definition)" not in text_of(a), a)
    check("at most", text_of(c.call("search", name="add", limit=1)[0]).count("\n\n") == 1)
    check("nowhere", "nowhere" in text_of(c.call("search", name="absent_name")[0]))
    a = c.call("related", text="value = add(one, two)\nring_p")[0]
    check("code about the same: what a name means", "def add(a, b):" in text_of(a), a)
    check("and a word that is begun", "ring_put" in text_of(a), a)
    a = c.call("related", text="value = add(one, two)", path="add.py")[0]
    check("nothing of the file itself", "add.py" not in text_of(a), a)
    check("nothing at all", "nothing" in text_of(c.call("related", text="zzz")[0]))
    check("a text is needed", "text is missing" in text_of(c.call("related")[0]))
    c.end()


def check_solve(folder):
    c = Client(folder)
    c.begin()
    a, notes = c.call("solve", meta={"progressToken": "p"}, path="add.py", line=2,
                      test_file="tests.py")
    if is_error(a) and "bwrap" in text_of(a) or "sandbox" in text_of(a):
        print("skipped: solve by MCP: no sandbox here: %s" % text_of(a))
        return
    check("a diff", "+    return a + b" in text_of(a) and a["result"]["isError"] is False, a)
    check("and facts", a["result"]["structuredContent"]["status"] == "found", a)
    check("nothing is written", "a - b" in open(os.path.join(folder, "add.py")).read())
    a, notes = c.call("solve", meta={"progressToken": 7}, path="add.py", test_file="never.py",
                      variants=400, makers="mutate,repair")
    check("none", "none of" in text_of(a) and a["result"]["isError"] is False, a)
    check("progress", notes and all(n["params"]["progressToken"] == 7 and
          n["method"] == "notifications/progress" for n in notes), notes[:2])
    at = [n["params"]["progress"] for n in notes]
    check("progress never goes back", at == sorted(at), at)
    c.line(json.dumps({"jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": {
        "name": "solve", "arguments": {"path": "add.py", "test_file": "never.py",
                                       "variants": 100000, "makers": "mutate"}}}))
    c.line(json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled",
                       "params": {"requestId": "long"}}))
    a = c.ask("ping")
    check("a cancelled call is not answered", a[1] == [], a)
    ids = subprocess.run(["ps", "-o", "pid=", "--ppid", str(c.process.pid)], capture_output=True,
                         text=True).stdout.split()
    check("and leaves no process", ids == [], ids)
    check("it ends", c.end() == 0)


def check_package(folder):
    try:
        import anyio
        from mcp import Client as PackageClient, StdioServerParameters
        from mcp.client.stdio import stdio_client
    except ImportError as e:
        print("skipped: the client of the mcp package: %s" % e)
        return
    server = StdioServerParameters(command=CERIUM, args=["mcp", "--root", folder],
                                   env=dict(os.environ))

    async def talk(mode):
        async with PackageClient(stdio_client(server), mode=mode) as client:
            tools = await client.list_tools()
            result = await client.call_tool("search", {"name": "add"})
            return [t.name for t in tools.tools], result.content[0].text
    for mode in ("auto", "legacy"):
        names, text = anyio.run(talk, mode)
        check("the mcp package's client, " + mode, names == ["solve", "search", "related"] and
              text.startswith("add.py:1"), (names, text))


with tempfile.TemporaryDirectory() as made:
    made = os.path.realpath(made)
    files(made)
    for part in (check_protocol, check_modern, check_search, check_solve, check_package):
        part(made)
print("mcp: %d passed, %d failed" % (passed, failed))
sys.exit(failed > 0)
