"""check_lsp_edits.py - edits of `cerium lsp`: by instruction, next ones, lines of other files, and
what became of completions."""

import json
import os
import subprocess
import tempfile
import time

from client import Client
from kit import CERIUM, CODE, EDITS, NEXT, apply_edits, begin, check, end, seen

# ---- edits by instruction ----

SUM = "int add(int a, int b)\n{\n    // cerium: %s\n    return a - b; // 😀\n}\n"


def ask_edit(c, uri, line):
    """The code action of a comment, run; the answer to its command."""
    place = {"line": line, "character": 6}
    found = [a for a in c.ask("textDocument/codeAction", {
        "textDocument": {"uri": uri}, "range": {"start": place, "end": place},
        "context": {"diagnostics": []}}) if a["kind"] == "refactor.rewrite" and
        a.get("command", {}).get("command") == "cerium.server.edit"]
    if not found:
        return None
    command = found[0]["command"]
    return c.request("workspace/executeCommand", {"command": command["command"],
                                                  "arguments": command["arguments"]})


def test_edit():
    with tempfile.TemporaryDirectory() as folder:
        answer = os.path.join(folder, "answer")
        without = (SUM % "add").replace("    // cerium: add\n", "")
        whole = without.replace("a - b", "a + b")
        with open(answer, "w") as f:
            f.write("```c\n" + whole + "```\n")
        with open(os.path.join(folder, "a.c"), "w") as f:
            f.write(without)
        # `cerium edit` of the text without the comment is the truth.
        subprocess.run([CERIUM, "edit", "--quiet", "--apply", "--replay", answer,
                        os.path.join(folder, "a.c"), "add"], check=True, capture_output=True)
        with open(os.path.join(folder, "a.c")) as f:
            want = f.read()
        c = begin({**EDITS, "window": {"workDoneProgress": True}}, args=("--replay", answer),
                  env={"TMPDIR": folder})
        uri = "file:///src/a.c"
        c.open(uri, SUM % "add", "c")
        id_ = ask_edit(c, uri, 2)
        check("the comment offers an edit", id_ is not None)
        edit = c.wait_note("workspace/applyEdit")["params"]["edit"]["documentChanges"][0]
        got = apply_edits(c, c.texts[uri], edit["edits"])
        check("the edit is that of `cerium edit`", got == want, (got, want))
        check("for the version that it was made for", edit["textDocument"]["version"] == 1)
        check("and it is small", sum(e["newText"].count("\n") for e in edit["edits"]) == 1, edit)
        check("its command is answered", c.wait(id_)["result"] is None)
        c.ask("cerium/status", None)
        kinds = [n["params"]["value"]["kind"] for n in c.notes if n["method"] == "$/progress"]
        check("its progress begins and ends", kinds == ["begin", "end"], kinds)
        # The text moves on.
        id_ = ask_edit(c, uri, 2)
        c.change(uri, 0, 0, "\n")
        note = c.wait_note("window/showMessage")["params"]["message"]
        check("an edit of an older text is not made", "changed" in note, note)
        c.wait(id_)
        # The editor refuses it.
        c.applied = False
        c.change(uri, 0, 1, "")
        c.wait(ask_edit(c, uri, 2))
        note = c.wait_note("window/showMessage")["params"]["message"]
        check("the editor's refusal is told", "did not take" in note, note)
        # Canceled.
        id_ = ask_edit(c, uri, 2)
        c.notify("$/cancelRequest", {"id": id_})
        check("a canceled edit", c.wait(id_).get("error", {}).get("code") in (-32800, None))
        c.open(uri, SUM % "allow c-strcpy", "c")
        check("what the watchdog knows is no instruction", ask_edit(c, uri, 2) is None)
        end("edit", c)
        left = [n for n in os.listdir(folder) if n.startswith("cerium-edit-")]
        check("no copies are left", not left, left)
    c = begin(dict(EDITS))
    uri = "file:///src/a.c"
    c.open(uri, SUM % "add", "c")
    c.wait(ask_edit(c, uri, 2))
    note = c.wait_note("window/showMessage")["params"]["message"]
    check("a model that only completes says so", "no chat form" in note, note)
    end("edit without a model for it", c)
    c = begin({})
    c.open(uri, SUM % "add", "c")
    check("an editor that takes no edits is not offered one", ask_edit(c, uri, 2) is None)
    end("edit without an editor for it", c)


# ---- next edits ----

def next_edit(c, uri, at, version=None):
    return c.ask(NEXT, {"textDocument": {"uri": uri, "version": version or c.versions[uri]},
                        "position": c.position(c.texts[uri], at)})["edits"]


def take(c, uri, edit):
    """Apply a next edit, as an editor does: one change."""
    text = c.texts[uri]
    new = apply_edits(c, text, [{"range": edit["range"], "newText": edit["text"]}])
    start = 0
    while start < min(len(text), len(new)) and text[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(text), len(new)) - start and text[-1 - end] == new[-1 - end]:
        end += 1
    c.change(uri, start, len(text) - end, new[start:len(new) - end])


def rest(c):
    """As long as it takes until what was typed counts, after the server has read it."""
    c.ask("cerium/status", None)
    time.sleep(0.6)


def test_next_edit():
    c = begin(dict(EDITS))
    uri = "file:///n/rename.py"
    text = "def area(w, h):\n    # w times h: é😀\n    if w < 0:\n        return -w * h\n" \
           "    return w * h\n\n\nprint(area(1, 2), w)\n"
    c.open(uri, text)
    check("nothing was edited", next_edit(c, uri, 0) == [])
    at = text.index("w,")
    c.ask("cerium/status", None)
    began = time.monotonic()
    for i, key in enumerate("width"):
        c.change(uri, at + i, at + i + (i == 0), key)
    typed = next_edit(c, uri, at + 5)
    check("not while it is typed", typed == [] or time.monotonic() - began > 0.4, typed)
    check("not for another version", next_edit(c, uri, len(text), 1) == [])
    rest(c)
    n = 0
    while n < 10:
        edits = next_edit(c, uri, at + 5)
        if not edits:
            break
        check("the version comes back", edits[0]["textDocument"] == {
            "uri": uri, "version": c.versions[uri]}, edits)
        take(c, uri, edits[0])
        at = c.texts[uri].index("width") + 5
        rest(c)
        n += 1
    want = text.replace("area(w,", "area(width,").replace("if w", "if width") \
        .replace("-w", "-width").replace("return w", "return width")
    check("a parameter is renamed, place by place", c.texts[uri] == want, c.texts[uri])
    # Kakoune sends the whole text for each change.
    whole = "file:///n/whole.py"
    c.open(whole, text)
    for n in range(1, 6):
        c.versions[whole] += 1
        c.texts[whole] = text.replace("(w,", "(" + "width"[:n] + ",")
        c.notify("textDocument/didChange", {
            "textDocument": {"uri": whole, "version": c.versions[whole]},
            "contentChanges": [{"text": c.texts[whole]}]})
    rest(c)
    edits = next_edit(c, whole, text.index("w,") + 5)
    check("a rename of a client that sends whole texts", len(edits) == 1 and
          edits[0]["text"] == "width" and edits[0]["range"]["start"]["line"] == 2, edits)
    # Another kind of change is repeated once it was made twice.
    uri = "file:///n/alike.py"
    text = "".join(f"    self.assertEquals(f({i}), {i})\n" for i in range(6)) + "# assertEquals\n"
    c.open(uri, text)
    for i in range(2):
        at = c.texts[uri].index("assertEquals(")
        c.change(uri, at + 11, at + 12, "")
        rest(c)
        edits = next_edit(c, uri, at)
        check(f"behind {i + 1} of them", bool(edits) == (i == 1), edits)
    place = c.position(c.texts[uri], at)
    actions = [a for a in c.ask("textDocument/codeAction", {
        "textDocument": {"uri": uri}, "range": {"start": place, "end": place},
        "context": {"diagnostics": []}}) if a["kind"] == "refactor.rewrite"]
    check("all others in one action", len(actions) == 1 and "4 more places" in
          actions[0]["title"], actions)
    new = apply_edits(c, c.texts[uri], actions[0]["edit"]["documentChanges"][0]["edits"])
    check("code alone", new == text.replace("assertEquals(", "assertEqual("), new)
    uri = "file:///n/string.py"
    c.open(uri, 'x = f("old", 1)\ny = f("old", 2)\nz = f("new", 3)\nprint("old")\n')
    for _ in range(2):
        at = c.texts[uri].index("old")
        c.change(uri, at, at + 3, "now")
        time.sleep(0.1)
    check("words of strings are not", next_edit(c, uri, len(c.texts[uri])) == [])
    end("next edit", c)


def test_jump():
    """A place that no screen shows is gone to, where the editor can and the user asks for it."""
    text = "def area(w):\n    return w\n" + "\n" * 40 + "for i in range(3):\n    print(area(i))\n"
    for can in (True, False):
        c = begin({**EDITS, "window": {"showDocument": {"support": can}}})
        uri = "file:///j/far.py"
        c.open(uri, text)
        at = text.index("area")
        c.change(uri, at, at + 4, "size")
        place = c.position(c.texts[uri], at)
        found = c.ask("textDocument/codeAction", {
            "textDocument": {"uri": uri}, "range": {"start": place, "end": place},
            "context": {"diagnostics": []}})
        go = [a for a in found if "command" in a]
        check("the way is offered where it can be gone", len(go) == can and len(found) == 1 + can,
              found)
        call = {"command": "cerium.server.next",
                "arguments": [{"uri": uri, "range": {"start": place, "end": place}}]}
        if can:
            check("by a command of the server", {k: go[0]["command"][k] for k in call} == call, go)
        begin_at = c.position(c.texts[uri], c.texts[uri].index("area"))
        want = {"start": begin_at, "end": {**begin_at, "character": begin_at["character"] + 4}}
        check("the place", c.ask("workspace/executeCommand", call) == want)
        shown = [n["params"] for n in c.notes if n["method"] == "window/showDocument"]
        check("is shown",
              shown == [{"uri": uri, "takeFocus": True, "selection": want}] * can, shown)
        c.change(uri, c.texts[uri].index("area"), c.texts[uri].index("area") + 4, "size")
        check("none is left", c.ask("workspace/executeCommand", call) is None)
        answer = c.wait(c.request("workspace/executeCommand", {"command": "cerium.server.next",
                                                               "arguments": [{"uri": "x"}]}))
        check("a place is needed", answer["error"]["code"] == -32602, answer)
        end(f"jump {can}", c)


# ---- lines of other files, and what became of completions ----

BASKET = """class Basket:
    def total_of_prices(self):
        return sum(self.prices)


def order_basket(basket, address, express=False):
    return basket, address, express
"""
SHOW = "from shop.basket import Basket\n\n\ndef show(basket):\n    print(basket.tot"


def until_files(c, n):
    limit = time.monotonic() + 120
    while c.ask("cerium/status", None)["files"] != n:
        assert time.monotonic() < limit, "the files do not get read"
        time.sleep(0.05)


def test_retrieval():
    """A name of another file is completed where snippets are on, and not where they are off."""
    with tempfile.TemporaryDirectory() as root:
        os.mkdir(root + "/shop")
        for name, text in (("basket.py", BASKET), ("notes.txt", BASKET), ("key.py", BASKET)):
            with open(f"{root}/shop/{name}", "w") as f:
                f.write(text)
        uri = f"file://{root}/shop/show.py"
        said = {}
        for on in (True, False):
            c = begin(options={"retrieval": on, "minConfidence": 0, "exclude": ["key.py"]},
                      workspaceFolders=[{"uri": f"file://{root}", "name": "w"}])
            c.ready()
            if on:
                until_files(c, 1)
            c.open(uri, SHOW + "\n    return basket\n")
            said[on] = [i["insertText"] for i in c.inline(uri, len(SHOW), 1)]
            if on:
                # A file that is open counts as it is there, not as it is on the disk.
                c.open(f"file://{root}/shop/more.py",
                       "def more(basket):\n    print(basket.total_in_euros())\n")
                c.change(uri, len(SHOW), len(SHOW), "al_in_")
                c.change(uri, 0, 0, "# x\n" * 20)
                said["open"] = [i["insertText"] for i in c.inline(uri, len(SHOW) + 86, 1)]
                until_files(c, 2)
                c.notify("workspace/didChangeWorkspaceFolders", {"event": {
                    "added": [], "removed": [{"uri": f"file://{root}", "name": "w"}]}})
                until_files(c, 0)
            else:
                status = c.ask("cerium/status", None)
                check("no file is read where they are off", status["files"] == 0, status)
            end(f"retrieval {on}", c)
        check("a name of another file", said[True] and said[True][0].startswith("al_of_prices("),
              said)
        check("a name of a file that is open, and not saved",
              said["open"] and said["open"][0].startswith("euros("), said)
        check("is not known without it", not said[False] or
              not said[False][0].startswith("al_of_prices("), said)


def usage_of(state):
    done = subprocess.run([CERIUM, "usage", "--completions", "--json"], capture_output=True,
                          text=True, env={**os.environ, "XDG_STATE_HOME": state})
    check("usage --completions", done.returncode == 0, done.stderr)
    return json.loads(done.stdout)["completions"]


def test_feedback():
    """Taken, typed, refused: by the text alone; a file keeps it, and it moves what is shown."""
    start = CODE + "    def sub(self, "
    with tempfile.TemporaryDirectory() as state:
        env = {"XDG_STATE_HOME": state}
        c = Client(program=CERIUM, env=env)
        seen.append(c)
        c.initialize(options={"minConfidence": 0})
        c.ready()
        saved = slow = 0
        for i, act in enumerate(("take", "type", "refuse", "at once", "invoke")):
            uri = f"file:///f/{i}.py"
            c.open(uri, start)
            began = time.monotonic()
            items = c.inline(uri, len(start), 1 if act == "invoke" else 2)
            check(f"something to {act}", len(items) == 1 or (act == "invoke" and items), items)
            text = items[0]["insertText"]
            if act != "at once":
                time.sleep(0.4)
            if act == "take":
                c.change(uri, len(start), len(start), text)
                saved += len(text)
            elif act == "type":
                for k, key in enumerate(text):
                    c.change(uri, len(start) + k, len(start) + k, key)
            else:
                c.change(uri, len(start), len(start), "~" + "q" * (act == "refuse"))
            if act == "at once":  # on a busy machine it may have been seen
                c.ask("cerium/status", None)
                slow = time.monotonic() - began > 0.2
        end("feedback", c)
        rows = usage_of(state)
        check("one row", len(rows) == 1 and rows[0]["language"] == "python", rows)
        if slow and rows[0]["shown"] == 4:
            rows[0].update(shown=3, refused=rows[0]["refused"] - 1)
        got = {k: rows[0][k] for k in ("shown", "taken", "typed", "refused", "characters_saved")}
        check("what became of them", got == {"shown": 3, "taken": 1, "typed": 1, "refused": 1,
                                             "characters_saved": saved}, got)
        # Somebody who refuses all is shown less, unless he says what he wants.
        path = os.path.join(state, "cerium", "completions.json")
        with open(path) as f:
            kept = json.load(f)
        kept["completions"][0].update(shown=5000, taken=0, typed=0, refused=5000, promised=2500)
        with open(path, "w") as f:
            json.dump(kept, f)
        shown = {}
        for name, options in (("none", {"feedback": False}), ("less", {}),
                              ("all", {"minConfidence": 0})):
            c = Client(program=CERIUM, env=env)
            seen.append(c)
            c.initialize(options=options)
            c.ready()
            shown[name] = 0
            line = "    def sub(self, other):\n        return Point(self.x - other.x, self.y)"
            for i in range(12, len(line), 2):
                uri = f"file:///f/{i}.py"
                text = CODE + line[:i]
                c.open(uri, text)
                shown[name] += len(c.inline(uri, len(text)))
            end(f"feedback {name}", c)
        check("fewer are shown", shown["less"] < shown["none"] <= shown["all"], shown)
        with open(path, "w") as f:
            f.write("not ours")
        c = Client(program=CERIUM, env=env)
        seen.append(c)
        c.initialize()
        check("another's file is left alone, and all goes on", c.ready()["kind"] == "Normal")
        end("another's file", c)
        check("it is", open(path).read() == "not ours")
