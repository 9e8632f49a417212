#!/usr/bin/env python3
"""wafer_fit.py - fit the wafer's constants to calibration rows, and leave each row out in turn.

    tools/wafer_fit.py [--cerium ./cerium] tests/wafer/calibration.csv

Cycles are linear in the constants, so a prediction for every row with one constant moved at a time
is all that least squares needs.  Errors are relative.  Needs only Python."""
import argparse
import json
import subprocess

FITS = [("wse_decode", ["stage", "scalar"]), ("wse_prefill", ["issue", "gemm_row"])]


def times(args, settings):
    """{row: time} of every predicted row; rates are inverted."""
    command = [args.cerium, "wafer", "validate", args.rows, "--json"]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["rows"]

    def time(row, x):
        return 1 / x if row["unit"] == "tok/s" else x

    return {(r["class"], r["id"]): (time(r, r["predicted"]), time(r, r["value"]))
            for r in rows if r["modelled"] and not r["input"]}


def solve(a, b):
    """Gauss over the normal equations of a x = b."""
    n = len(a[0])
    m = [[sum(r[i] * r[j] for r in a) for j in range(n)] + [sum(r[i] * y for r, y in zip(a, b))]
         for i in range(n)]
    for i in range(n):
        p = max(range(i, n), key=lambda k: abs(m[k][i]))
        m[i], m[p] = m[p], m[i]
        for k in range(n):
            if k != i:
                f = m[k][i] / m[i][i]
                m[k] = [x - f * y for x, y in zip(m[k], m[i])]
    return [m[i][n] / m[i][i] for i in range(n)]


def fit(args, klass, names):
    zero = times(args, {n: 0 for n in names})
    unit = [times(args, {m: 1 if m == n else 0 for m in names}) for n in names]
    keys = [k for k in zero if k[0] == klass]
    a = [[(u[k][0] - zero[k][0]) / zero[k][1] for u in unit] for k in keys]
    b = [1 - zero[k][0] / zero[k][1] for k in keys]

    def error(x, i):
        return sum(c * v for c, v in zip(x, a[i])) - b[i]

    def mean(errors):
        return 100 * sum(map(abs, errors)) / len(errors)

    best = solve(a, b)
    print(f"{klass}: " + ", ".join(f"{n} = {x:.2f}" for n, x in zip(names, best)))
    print("| row | fitted on all | left out |\n|---|---|---|")
    left = []
    for i, k in enumerate(keys):
        rest = [j for j in range(len(keys)) if j != i]
        left.append(error(solve([a[j] for j in rest], [b[j] for j in rest]), i))
        print(f"| {k[1]} | {100 * error(best, i):+.2f} % | {100 * left[-1]:+.2f} % |")
    every = [error(best, i) for i in range(len(keys))]
    print(f"| mean | {mean(every):.2f} % | {mean(left):.2f} % |\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows")
    parser.add_argument("--cerium", default="./cerium")
    args = parser.parse_args()
    for klass, names in FITS:
        fit(args, klass, names)


if __name__ == "__main__":
    main()
