"""compare.py LINES FOLDER [DIGESTS] - every template of FOLDER in every conversation, by cerium's
interpreter (the program LINES) and by jinja2: how many renderings are equal, byte for byte, and how
long a hundred messages with tools take (the least of several times)."""
import glob
import json
import os
import subprocess
import sys

import conversations
import oracle


def same(want, failed, got):
    if failed is None:
        return got.get("text") == want
    if failed.startswith("raised: "):
        return got.get("raised") and got["error"] == failed[8:][:len(got["error"])]
    return "error" in got and not got["raised"]


def main():
    lines, folder = sys.argv[1:3]
    process = subprocess.Popen([lines], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(template, context, repeat):
        process.stdin.write(json.dumps({"template": template, "context": context,
                                        "repeat": repeat}).encode() + b"\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    whole, n_rendered, n_failed, times = 0, 0, 0, []
    paths = sorted(glob.glob(os.path.join(folder, "*.jinja")))
    for path in paths:
        source = open(path, encoding="utf-8", newline="").read()
        wrong = []
        for name, context in conversations.conversations():
            want, failed = oracle.render(source, context)
            got = ask(source, context, 5 * (name == "hundred"))
            if "ns" in got and "text" in got:
                times.append((got["ns"] / 1e6, os.path.basename(path)))
            n_rendered += failed is None
            n_failed += failed is not None
            if not same(want, failed, got):
                wrong.append((name, want, failed, got))
        whole += not wrong
        for name, want, failed, got in wrong[:2]:
            print("%s: %s: %d differ" % (os.path.basename(path), name, len(wrong)))
            if failed is not None or "error" in got:
                print("    want: %s\n    have: %s" % (failed or want[:80], got.get("error")),
                      "line", got.get("line"))
            else:
                text = got["text"]
                at = next((i for i in range(min(len(text), len(want))) if text[i] != want[i]),
                          min(len(text), len(want)))
                print("    at %d want: %r\n         have: %r" % (at, want[max(0, at - 40):at + 40],
                                                              text[max(0, at - 40):at + 40]))
    print("%d of %d templates are equal in %d renderings (%d more fail in both)"
          % (whole, len(paths), n_rendered, n_failed))
    times.sort()
    if times:
        print("a hundred messages with tools: %.2f ms in the median of %d templates, at most %.2f "
              "(%s)" % (times[len(times) // 2][0], len(times), *times[-1]))
    return 0 if whole == len(paths) and paths else 1


if __name__ == "__main__":
    sys.exit(main())
