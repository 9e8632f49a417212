#!/usr/bin/env python3
"""Sample documents under many grammars, and have others say whether they are valid.

    make documents                                          # 10,000 of them
    python3 tests/grammar/documents.py N FOLDER [MODEL...]

Grammars: those of cases.json, and all schemas of the public JSON-Schema-Test-Suite that compile;
FOLDER is its tests/draft2020-12, or `-` to do without.  Models take turns, and weights are random
or as good as (see sample.c).  Needs jsonschema[format-nongpl] and lark from PyPI.  Each document
must be:

  schemas   JSON as Python's parser reads it, whichever of two members with one name counts, and
            valid by jsonschema with its checks of formats
  lark      in the language by Lark's Earley parser, all readings tried
  regex     a full match by Python's re

--spoil KIND changes one document of a kind, which its validator has to find.
"""
import decimal
import glob
import json
import os
import re
import subprocess
import sys

SAMPLE = os.environ.get("SAMPLE", "build/release/grammar_sample")
HERE = os.path.dirname(os.path.abspath(__file__))
SYNTAXES = {"schema": 0, "regex": 1, "lark": 2}
# Random weights, which are cheap; and a real vocabulary now and then.
MODELS = [f"tests/golden/fixtures/{name}.gguf" for name in ("qwen2", "llama", "qwen3")] * 2 + [
    "models/cerium-first.gguf"]
ROUND = 4  # documents of a grammar and a model at a time
LARK_CHARACTERS_MAX = 400  # its time grows with the cube


def cases_of(folder):
    with open(os.path.join(HERE, "cases.json"), encoding="utf-8") as file:
        cases = json.load(file, parse_float=decimal.Decimal)
    for case in cases:
        case["times"] = 4  # ours are like those that are sent; the suite's are many
    for path in sorted(glob.glob(folder + "/*.json")):
        with open(path, encoding="utf-8") as file:
            for group in json.load(file, parse_float=decimal.Decimal):
                name = f"{os.path.basename(path)[:-5]}: {group['description']}"
                cases.append({"name": name, "schema": group["schema"], "times": 1})
    for case in cases:
        case["kind"] = next(kind for kind in SYNTAXES if kind in case)
        text = case[case["kind"]]
        case["grammar"] = json.dumps(text, default=float) if case["kind"] == "schema" else text
    return cases


def sample(model, cases, n, seed):
    """What the model says to each case: {"documents", "cut"} or {"error"}."""
    lines = "\n".join(json.dumps({"syntax": SYNTAXES[c["kind"]], "grammar": c["grammar"],
                                  "seed": seed, "n": n * c["times"]}) for c in cases)
    out = subprocess.run([SAMPLE, model], input=lines, capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"{SAMPLE} {model}: status {out.returncode}: {out.stderr.strip()}")
    return [json.loads(line) for line in out.stdout.split("\n") if line]


def no_constant(name):
    raise ValueError(f"{name} is no JSON")


def first_wins(pairs):
    return dict(reversed(pairs))


def schema_validator(schema):
    import jsonschema
    if isinstance(schema, dict):
        # Decimals: multipleOf has to be exact.  What follows from "$schema" is not looked for.
        schema = {k: v for k, v in schema.items() if k != "$schema"}
    validator = jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)

    def fault(text):
        for hook in (None, first_wins):
            try:
                value = json.loads(text, parse_float=decimal.Decimal, parse_constant=no_constant,
                                   object_pairs_hook=hook)
            except ValueError as error:
                return f"not JSON: {error}"
            error = next(validator.iter_errors(value), None)
            if error:
                return error.message
        return None
    return fault


def lark_validator(text):
    import lark
    text = text.replace("/(.*)/", "/(.+)/?")  # the same language: it refuses empty terminals
    parser = lark.Lark(text, parser="earley", lexer="dynamic_complete")

    def fault(document):
        try:
            parser.parse(document)
        except lark.exceptions.LarkError as error:
            return str(error).splitlines()[0]
        return None
    return fault


def regex_validator(text):
    pattern = re.compile(text)
    return lambda document: None if pattern.fullmatch(document) else "does not match"


VALIDATORS = {"schema": schema_validator, "lark": lark_validator, "regex": regex_validator}


class Count:
    def __init__(self):
        self.valid, self.invalid, self.cut, self.long = dict.fromkeys(SYNTAXES, 0), 0, 0, 0
        self.distinct = set()


def judge(case, documents, count):
    for text in documents:
        if case["kind"] == "lark" and len(text) > LARK_CHARACTERS_MAX:
            count.long += 1
            continue
        fault = case["fault"](text)
        if fault:
            count.invalid += 1
            print(f"INVALID {case['kind']}: {case['name']} | {fault[:200]} | {text[:300]!r}")
        else:
            count.valid[case["kind"]] += 1
            count.distinct.add((case["name"], text))


def spoil(kind, cases, answers):
    """One more character at the end of the first document of the kind."""
    for case, answer in zip(cases, answers):
        if case["kind"] == kind and answer.get("documents"):
            answer["documents"][0] += "\x01"
            return


def main():
    arguments, spoiled = sys.argv[1:], None
    if "--spoil" in arguments:
        spoiled = arguments.pop(arguments.index("--spoil") + 1)
        arguments.remove("--spoil")
    if len(arguments) < 2:
        sys.exit(__doc__)
    wanted, folder = int(arguments[0]), arguments[1]
    models = arguments[2:] or MODELS
    cases, count, rounds = cases_of(folder), Count(), 0
    answers = sample(models[0], cases, 0, 0)
    refused = sum("error" in a for a in answers)
    cases = [c for c, a in zip(cases, answers) if "error" not in a]
    for case in cases:
        case["fault"] = VALIDATORS[case["kind"]](case[case["kind"]])
    while count.invalid + sum(count.valid.values()) < wanted and rounds < wanted:
        n = max(1, min(ROUND, (wanted - sum(count.valid.values())) // len(cases)))
        answers = sample(models[rounds % len(models)], cases, n, 1 + 4 * ROUND * rounds)
        if rounds == 0:
            spoil(spoiled, cases, answers)
        for case, answer in zip(cases, answers):
            if "error" in answer:
                count.invalid += 1
                print(f"INVALID {case['kind']}: {case['name']} | {answer['error']}")
                continue
            count.cut += answer["cut"]
            judge(case, answer["documents"], count)
        rounds += 1
        print(f"  {sum(count.valid.values())} of {wanted}", file=sys.stderr)
    print(f"{sum(count.valid.values())} documents valid ({count.valid['schema']} by schema, "
          f"{count.valid['lark']} by lark, {count.valid['regex']} by regex; {len(count.distinct)} "
          f"distinct), {count.invalid} invalid; {len(cases)} grammars, {refused} refused; "
          f"{count.cut} cut at the limit of tokens, {count.long} too long for lark")
    sys.exit(count.invalid > 0 or sum(count.valid.values()) < wanted)


if __name__ == "__main__":
    main()
