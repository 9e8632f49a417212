#!/usr/bin/env python3
"""make_jinja_vectors.py - writes jinja_vectors.jsonl: jinja2's output for small templates, one for
each feature that published chat templates use, and some for Python's pitfalls.

    python3 tests/unit/make_jinja_vectors.py > tests/unit/jinja_vectors.jsonl      (needs jinja2)
"""
import ast
import json
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "template"))
import oracle  # noqa: E402

CONTEXT = {
    "s": "  Héllo, wörld! ", "n": 7, "x": 2.5, "t": True, "f": False, "z": None, "e": "",
    "l": [3, 1, 2], "w": ["b", "A", "c"], "m": {"b": 1, "a": [1, {"k": "v"}], "items": 5},
    "d": [{"n": "x", "v": 1}, {"n": "y", "v": 2}, {"n": "x", "v": 3}],
    "text": "a</think>b</think>\n\nc", "lines": "one\ntwo\n\nthree",
    "q": "it's \"quoted\" \\ back\n\ttab \x07 ü 日本 🙂",
}




def templates():
    """Each line of jinja_templates.txt; of those that begin with ! the rest is a Python string."""
    for line in open(os.path.join(FOLDER, "jinja_templates.txt"), encoding="utf-8"):
        line = line.rstrip("\n")
        yield ast.literal_eval(line[1:]) if line.startswith("!") else line


def main():
    for template in templates():
        want, failed = oracle.render(template, json.loads(json.dumps(CONTEXT)))
        line = {"template": template}
        if failed is None:
            line["want"] = want
        elif failed.startswith("raised: "):
            line["raised"] = failed[8:]
        else:
            line["error"] = failed.split(":")[0]
        print(json.dumps(line, ensure_ascii=False))


if __name__ == "__main__":
    print(json.dumps({"context": CONTEXT}, ensure_ascii=False))
    main()
