"""check_edits.py - POST /v1/edit-predictions and edit.predict in each form, by a recorded model."""

import json
import os
import subprocess
import sys
import tempfile

from talk import MODEL, ROOT, RawSocket, Report, Server, frame, line, wait_for

FILE = "int a;\nint b;\nint c;\nint d;\n"
CARET = FILE.index(" c;")
NEW = "int a;\nint b;\nint x;\nint d;\n"
CHANGES = [{"path": "a.c", "diff": "@@ -3 +3 @@\n-int z;\n+int c;\n"}]
# How each form's prompt marks the place, and how a model writes the new lines in it.
FORMS = {
    "sweep": ("<|file_sep|>current/a.c:3:7\nint a;\nint b;\nint<|cursor|> c;\nint d;\n"
              "<|file_sep|>updated/a.c:3:7\n", NEW.rstrip("\n")),
    "zeta": ("<|editable_region_start|>\nint a;\nint b;\nint<|user_cursor_is_here|> c;\nint d;\n"
             "<|editable_region_end|>\n\n```\n\n### Response:\n",
             "<|editable_region_start|>\n" + NEW),
    "zeta2": ("<|fim_middle|>current\nint a;\nint b;\nint<|user_cursor|> c;\nint d;\n"
              "<|fim_suffix|>\n\n<|fim_middle|>updated\n", NEW),
    "zeta2.1": ("<|marker_1|>int a;\nint b;\nint<|user_cursor|> c;\nint d;<|marker_2|>\n"
                "<[fim-middle]>", "<|marker_1|>" + NEW.rstrip("\n") + "<|marker_2|>"),
}


def place(text=FILE, caret=CARET, **fields):
    return {"path": "a.c", "prefix": text[:caret], "suffix": text[caret:], "changes": CHANGES,
            **fields}


def ask(server, **fields):
    status, _, text = server.request("POST", "/v1/edit-predictions", json.dumps(fields).encode())
    return status, json.loads(text)


def predicted(socket, name):
    while True:
        event = socket.read_json()
        if event.get("id") == name:
            return event


def send_together(socket, *messages):
    """All in one segment, however slow this process is: the first must still run when the
    last is read."""
    socket.send(b"".join(frame(json.dumps(message)) for message in messages))


def check_form(report, form):
    prompt, answer = FORMS[form]
    script = [line(answer, repeat=True, api="edits", last=prompt)]
    with Server(replay=script, context=16384, args=["--edit-format", form]) as server:
        with report.check("%s: the form's prompt, and the line that its answer changes" % form,
                          server):
            status, body = ask(server, **place())
            assert status == 200 and body["form"] == form, body
            assert body["edits"] == [{"start_line": 2, "end_line": 3, "text": "int x;\n"}], body
            assert body["reason"] is None and body["object"] == "edit_prediction", body
            assert body["usage"]["prompt_tokens"] > 0 and "cerium" not in body, body
        with report.check("%s: the same over a socket; CR LF" % form, server):
            with RawSocket(server.port) as s:
                cr = place(FILE.replace("\n", "\r\n"), FILE.replace("\n", "\r\n").index(" c;"))
                for name, asked in (("e1", place()), ("e2", cr)):
                    s.send_json({"type": "edit.predict", "id": name, **asked})
                    event = predicted(s, name)
                    assert event["type"] == "edit.prediction", event
                    assert event["edits"] == body["edits"] and event["reason"] is None, event


def check_refusals(report):
    script = [line("int a;\nint b;\nint z;\nint d;", repeat=True, api="edits",
                   last="int<|cursor|>"),
              line(" ".join("word%d" % i for i in range(400)), repeat=True, last="talk for long"),
              line("return a + b;", repeat=True, last="int add(")]
    with Server(replay=script, context=16384, args=["--edit-format", "sweep"]) as server:
        with report.check("nothing is proposed, and why", server):
            _, body = ask(server, **place())
            assert body["edits"] == [] and "takes back" in body["reason"], body
            _, body = ask(server, **place("talk for long\n", 3, changes=[]), max_tokens=8)
            assert body["edits"] == [] and "no end" in body["reason"], body
        with report.check("invalid requests: one clear line", server):
            for asked, param, code in (
                    (place(path=5), "path", "invalid_type"),
                    (place(max_tokens=0), "max_tokens", "integer_below_min_value"),
                    ({"prefix": "", "suffix": ""}, "path", "missing_required_parameter"),
                    ({"path": "a"}, "prefix", "missing_required_parameter"),
                    (place(changes=[{"path": "a"}]), "changes[0].diff",
                     "missing_required_parameter"),
                    (place(context=[5]), "context[0]", "invalid_type"),
                    (place(context=[{"path": "a", "text": "x", "part": 1}]), "context[0].part",
                     "invalid_type"),
                    (place("x = '<|file_sep|>'\n", 3), "prefix", "nothing_to_predict"),
                    (place("\n\n", 1), "prefix", "nothing_to_predict"),
                    (place("y" * 1200, 3), "prefix", "nothing_to_predict")):
                status, body = ask(server, **asked)
                error = body["error"]
                assert status == 400 and error["param"] == param and error["code"] == code, body
        with report.check("a newer one of the same file ends the older; completions do not",
                          server):
            long = place("talk for long\n", 3, changes=[])
            with RawSocket(server.port) as s:
                send_together(s, {"type": "edit.predict", "id": "old", **long},
                              {"type": "completion.create", "id": "c", "path": "a.c",
                               "prefix": "int add("},
                              {"type": "edit.predict", "id": "new", **place()})
                ends = [predicted(s, "old"), predicted(s, "new")]
                assert ends[0]["reason"] == "superseded" and "takes back" in ends[1]["reason"], ends
                send_together(s, {"type": "edit.predict", "id": "x", **long},
                              {"type": "completion.cancel", "id": "x"})
                assert predicted(s, "x")["reason"] == "canceled"
                s.send_json({"type": "edit.predict", "id": "!", **place()})
                error = s.read_json()
                assert error["type"] == "error" and error["error"]["param"] == "id", error
        with report.check("nothing is left over, and it shuts down cleanly", server):
            wait_for(lambda: server.running() == 0)
            assert server.metric("cerium_failed_total") == 0
            assert server.stop() == 0


def check_hole(report):
    """A model without a form for edits gives its completion at the caret."""
    script = [line("x + 1;", api="edits", last="int add")]
    with Server(replay=script, context=16384) as server:
        with report.check("no form: the completion at the caret, as an edit of its line", server):
            text = "int f(int x) {\n    return \n}\nint add;\n"
            text = "int add;\n" + text
            status, body = ask(server, **place(text, text.index("return ") + 7, changes=[]))
            assert status == 200 and body["form"] == "fim", body
            assert body["edits"] == [{"start_line": 2, "end_line": 3,
                                      "text": "    return x + 1;\n"}], body


def check_key(report):
    """The model's file names its form; an unknown form counts as none."""
    prompt, answer = FORMS["zeta"]
    script = [line(answer, repeat=True, api="edits", last=prompt)]
    with tempfile.TemporaryDirectory() as folder:
        for value, form in (("zeta", "zeta"), ("another", "fim")):
            model = os.path.join(folder, "%s.gguf" % value)
            subprocess.run([sys.executable, os.path.join(ROOT, "training", "add_keys.py"), MODEL,
                            model, "cerium.edit_format=" + value], check=True)
            with Server(replay=script, model=model) as server:
                with report.check("a file with the format %s" % value, server):
                    listed = server.json("GET", "/v1/models")["data"][0]
                    assert listed["edit_form"] == form, listed
                    status, body = ask(server, **place())
                    assert status == 200 and body["form"] == form, body
                    assert bool(body["edits"]) == (form == "zeta"), body


def main():
    report = Report("edits")
    check_key(report)
    for form in FORMS:
        check_form(report, form)
    check_refusals(report)
    check_hole(report)
    report.end()


main()
