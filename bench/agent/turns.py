"""turns.py - facts of each answer from a server's log: new and cached tokens of the prompt,
generated tokens, and the time."""

import re
import statistics

ANSWER = re.compile(r"event=answer .*\brequests=1 prompt=(\d+) cached=(\d+) tokens=(\d+) "
                    r"first_ms=([\d.]+) ms=([\d.]+)")


def turns_of(path):
    """In order; a warm-up, which computes the prompt ahead, has no generated tokens."""
    found = []
    with open(path, errors="replace") as f:
        log = f.read()
    for prompt, cached, said, first_ms, ms in ANSWER.findall(log):
        found.append({"prompt": int(prompt), "cached": int(cached), "said": int(said),
                      "first_ms": float(first_ms), "ms": float(ms)})
    return found


def sums(turns):
    """One line of a table; a warm-up is no turn, but its tokens count."""
    said = [t for t in turns if t["said"]]
    return {"turns": len(said), "read": sum(t["prompt"] - t["cached"] for t in turns),
            "cached": sum(t["cached"] for t in turns), "said": sum(t["said"] for t in turns),
            "first_ms": statistics.median(t["first_ms"] for t in said) if said else 0,
            "ms": statistics.median(t["ms"] for t in said) if said else 0}
