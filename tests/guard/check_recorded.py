#!/usr/bin/env python3
"""check_recorded.py FOLDER: what a server shows of the recorded answers of FOLDER/stream.jsonl, by
server-sent events and by WebSocket, is what FOLDER/expect.jsonl wants of each: held (what is weak
is in no byte of the stream, plain or escaped; calls are whole JSON), released (the answer as it was
recorded), warn (released, with a finding).  Prints what does not hold; status 1 when any does not.

CERIUM=./cerium CLIENTS=build/clients."""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "clients"))

from harness import Server  # noqa: E402
from rawsocket import RawSocket  # noqa: E402

# What is weak in an answer, in code without escapes; in others it is SQL.
SQL = ["WHERE name = '\" + name"]
WEAK = {
    "shell_pyc": ["os.system('ls ' + n)"],
    "multisql": ["cur.execute(sql)"],
    "fstring": ["name = '{name}'"],
    "template": ["'${id}'"],
    "jsx": ["__html: html"],
    "two": ["innerHTML = q", "\"ls \"+r.FormValue"],
    "html_only": ["innerHTML = q"],
    "vue": ["exec('ls ' + d)"],
    "bashfence": ["eval \"$1\"", "id='$1'", "curl -k"],
    "ctf": ["pickle.loads(r.content)"],
}


def tool(name, *keys):
    return {"type": "function", "name": name, "strict": False, "parameters": {
        "type": "object", "properties": {key: {"type": "string"} for key in keys}}}


TOOLS = [tool("apply_patch", "input"), tool("write_file", "path", "content"),
         tool("str_replace", "path", "old_str", "new_str"), tool("exec_command", "cmd")]


def by_events(server, body):
    status, _, data = server.request("POST", "/v1/responses", {**body, "stream": True}, timeout=60)
    assert status == 200, data
    return data, [json.loads(part[6:]) for part in data.decode().split("\n")
                  if part.startswith("data: {")]


def by_socket(server, body):
    socket = RawSocket(server.port)
    socket.send_json({"type": "response.create", **body})
    raw, events = b"", []
    while not events or not events[-1]["type"].startswith(("response.completed", "response.inc",
                                                           "response.failed", "error")):
        _, payload = socket.read_frame()
        raw += payload + b"\n"
        events.append(json.loads(payload))
    socket.socket.close()
    return raw, events


def escaped(text):
    """As code, within JSON, and within JSON within JSON."""
    out = [text]
    for _ in range(3):
        out.append(json.dumps(out[-1])[1:-1])
    return out


def said(events):
    return "".join(e["delta"] for e in events if e["type"].endswith(".delta"))


def recorded(output):
    """The text of an answer, or the arguments of its call."""
    if not output.startswith("<tool_call>"):
        return output
    return json.loads(output[len("<tool_call>"):output.rindex("</tool_call>")])["arguments"]


def judge(case, want, output, raw, events):
    text, last = said(events), events[-1]
    response = last.get("response", {})
    if last["type"] != "response.completed":
        return "ends with %s" % last["type"]
    calls = [json.loads(o["arguments"]) for o in response["output"] if o["type"] == "function_call"]
    found = response.get("cerium", {}).get("findings", [])
    if want == "held":
        everything = raw.decode() + text
        shown = [w for w in WEAK.get(case, SQL) for form in escaped(w) if form in everything]
        return ("shown: %s" % shown[0] if shown else None if found else "no finding")
    was = recorded(output)
    same = calls == [was] if isinstance(was, dict) else text.strip() == was.strip()
    if not same:
        return "changed: %s" % (calls or text)
    return "no finding" if want == "warn" and not found else None


def main():
    folder = sys.argv[1]
    answers = [json.loads(row) for row in open(os.path.join(folder, "stream.jsonl"))]
    cases = [json.loads(row) for row in open(os.path.join(folder, "expect.jsonl"))]
    outputs = {a["when"]["last"][5:-1]: a["output"] for a in answers}
    server, failed = Server(replay=answers), 0
    for case in cases:
        name, want = case["case"], case["want"]
        body = {"input": "case-%s." % name, "tools": TOOLS, "store": False}
        for how, ask in (("events", by_events), ("socket", by_socket)):
            why = judge(name, want, outputs[name], *ask(server, body))
            if why:
                failed += 1
                print("%s by %s, %s: %s" % (name, how, want, why))
    server.stop()
    print("recorded answers: %d of %d hold" % (2 * len(cases) - failed, 2 * len(cases)))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
