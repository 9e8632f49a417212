"""forms.py FORMS FOLDER - which form models with these templates have: how many keep a family,
are rendered by their template, are refused, and how their calls are read.  Fails where more than
two are refused."""
import collections
import glob
import json
import os
import re
import subprocess
import sys


def tokens_of(source):
    """What looks like a special token of the template."""
    names = re.findall(r"<\|[^|<>\n ]+\|>|<｜[^｜<>\n]+｜>|</?s>|\[/?[A-Z_]+\]|"
                       r"<[a-z_]+_of_[a-z_]+>", source)
    return list(dict.fromkeys(["<s>", "</s>"] + names))[:500]


def main():
    process = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    counts = collections.Counter()
    for path in sorted(glob.glob(os.path.join(sys.argv[2], "*.jinja"))):
        source = open(path, encoding="utf-8", newline="").read()
        process.stdin.write(json.dumps({"template": source, "tokens": tokens_of(source)}).encode()
                            + b"\n")
        process.stdin.flush()
        got = json.loads(process.stdout.readline())
        counts[got["form"] or "refused"] += 1
        counts["calls: " + got["calls"]] += 1
        print("%-55s %-12s %-18s %s" % (os.path.basename(path), got["form"], got["calls"],
                                        got["refusal"]))
    for name, n in sorted(counts.items()):
        print("%4d %s" % (n, name))
    return 1 if counts["refused"] > 2 or counts["template"] < 30 else 0


if __name__ == "__main__":
    sys.exit(main())
