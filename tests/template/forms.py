"""forms.py FORMS FOLDER - the forms of models with these templates: how many have a family,
are rendered by their template, are refused, and how their calls are read.  Fails if more than
two are refused, more than NONE_MAX have calls that cannot be read, or calls that jinja2 renders
are not read back as these calls."""
import ast
import collections
import glob
import json
import os
import re
import subprocess
import sys

import conversations
import oracle

NONE_MAX = 8


def tokens_of(source):
    """Everything that looks like a special token of the template."""
    names = re.findall(r"<\|[^|<>\n ]+\|>|<｜[^｜<>\n]+｜>|</?s>|\[/?[A-Z_]+\]|"
                       r"<[a-z_]+_of_[a-z_]+>", source)
    return list(dict.fromkeys(["<s>", "</s>"] + names))[:500]


def answer_of(source, calls):
    """These calls as the assistant's output, by jinja2: the text after the prompt."""
    for one in (calls, conversations.with_text(calls)):
        context = dict(conversations.BASE, tools=conversations.TOOLS)
        whole, failed = oracle.render(source, dict(
            context, messages=[conversations.USER, one], add_generation_prompt=False))
        behind = (whole or "").split(conversations.USER["content"].strip())[-1]
        if failed is not None or "rich" not in behind:
            continue
        prompt, failed = oracle.render(source, dict(context, messages=[conversations.USER]))
        if failed is not None or "get_weather" not in prompt:
            return None  # it shows no tools, so cerium adds them in its own way
        n = len(os.path.commonprefix([whole, prompt]))
        if n < len(prompt) and whole[:n].rfind("<") > whole[:n].rfind(">"):
            n = whole[:n].rfind("<")
        if prompt.rstrip().endswith("<think>") and "</think>" not in whole[n:]:
            return "hm</think>\n\n" + whole[n:]
        return whole[n:].replace("<think></think>", "")
    return None


def value_of(text, want):
    """Some templates write objects as Python does, which is text to the reader."""
    return ast.literal_eval(text) if isinstance(want, dict) and isinstance(text, str) else text


def is_read(got, calls):
    """The names and arguments; a template may show one call of several."""
    n = 0
    for name, text, one in zip(got[::2], got[1::2], calls["tool_calls"]):
        want, n = one["function"], n + 1
        try:
            have = {k: value_of(v, want["arguments"].get(k)) for k, v in json.loads(text).items()}
        except (ValueError, SyntaxError):
            return False
        if name != want["name"] or have != want["arguments"]:
            return False
    return n > 0 and len(got) == 2 * n


def main():
    process = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    counts = collections.Counter()

    def ask(what):
        process.stdin.write(json.dumps(what).encode() + b"\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    for path in sorted(glob.glob(os.path.join(sys.argv[2], "*.jinja"))):
        source = open(path, encoding="utf-8", newline="").read()
        what = {"template": source, "tokens": tokens_of(source)}
        got = ask(what)
        counts[got["form"] or "refused"] += 1
        counts["calls: " + got["calls"]] += 1
        for calls in (conversations.CALL, conversations.TWO):
            answer = answer_of(source, calls)
            if not got["calls"] or got["calls"].startswith("none") or answer is None:
                continue
            read = ask(dict(what, answer=answer))["read"]
            counts["read back"] += 1
            if not is_read(read, calls):
                counts["wrong"] += 1
                print("%s: %r is read as %s" % (os.path.basename(path), answer, read))
        print("%-55s %-12s %-18s %s" % (os.path.basename(path), got["form"], got["calls"],
                                        got["refusal"]))
    for name, n in sorted(counts.items()):
        print("%4d %s" % (n, name))
    unread = counts["calls: none"] + counts["calls: none-open"]
    bad = counts["refused"] > 2 or counts["template"] < 30 or unread > NONE_MAX
    return 1 if bad or counts["wrong"] or counts["read back"] < 80 else 0


if __name__ == "__main__":
    sys.exit(main())
