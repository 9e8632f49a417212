#!/usr/bin/env python3
"""Sample documents under many grammars, and validate them with other programs.

    make documents                                          # 10,000 of them
    python3 tests/grammar/documents.py N FOLDER [MODEL...]

Grammars: those of cases.json, random schemas, and those of the public JSON-Schema-Test-Suite that
compile; FOLDER is its tests/draft2020-12, or `-` to do without.  Models take turns, and weights are
random or nearly so (see sample.c).  Needs jsonschema[format-nongpl] and lark from PyPI.  Each
document must be:

  schemas   JSON as Python's parser reads it, for either of two members with one name, and
            valid by jsonschema with its checks of formats
  lark      in the language by Lark's Earley parser, all readings tried
  regex     a full match by Python's re

--spoil KIND damages one document of a kind, which its validator must find.
"""
import decimal
import glob
import json
import os
import random
import re
import subprocess
import sys

SAMPLE = os.environ.get("SAMPLE", "build/release/grammar_sample")
HERE = os.path.dirname(os.path.abspath(__file__))
SYNTAXES = {"schema": 0, "regex": 1, "lark": 2}
# Random weights, which are cheap; sometimes a real vocabulary.
MODELS = [f"tests/golden/fixtures/{name}.gguf" for name in ("qwen2", "llama", "qwen3")] * 2 + [
    "models/cerium-line.gguf"]
ROUND = 4  # documents of a grammar and a model at a time
RANDOM_SCHEMAS, RANDOM_SEED = 200, 1
LARK_CHARACTERS_MAX = 400  # its time grows with the cube


def random_object(rng, depth):
    """Members that parts of a schema refer to, and values for the rest."""
    names = rng.sample("abcde", rng.randint(1, 3))
    out = {"properties": {n: random_schema(rng, depth + 1) for n in names}}
    if rng.random() < 0.5:
        out["required"] = rng.sample(names, rng.randint(1, len(names)))
    if rng.random() < 0.2:
        out["patternProperties"] = {rng.choice(["^a", "b$", "c"]): random_schema(rng, depth + 1)}
    if rng.random() < 0.2:
        out["propertyNames"] = rng.choice([{"maxLength": 2}, {"pattern": "^[a-d]"},
                                           {"not": {"const": "a"}}, {"enum": ["a", "b", "x"]}])
    if rng.random() < 0.15:
        out["additionalProperties"] = random_leaf(rng)
    return out


def random_array(rng, depth, counts=False):
    out = {"items": random_schema(rng, depth + 1)}
    if rng.random() < 0.5:
        out = {"prefixItems": [random_schema(rng, depth + 1) for _ in range(rng.randint(1, 2))]}
    if rng.random() < 0.3:
        out.update(minItems=rng.randint(0, 2), maxItems=rng.randint(2, 4))
    if counts and rng.random() < 0.6:
        out["contains"] = random_leaf(rng)
        if rng.random() < 0.6:
            out.update(minContains=rng.randint(0, 2), maxContains=rng.randint(2, 3))
    elif counts and "items" in out:
        out.update(items={"enum": rng.sample([1, 2, "a", None, True, 1.5], 4)}, uniqueItems=True)
    return out


def random_condition(rng, is_object):
    """Keywords with an opposite."""
    name = rng.choice("abcde")
    if is_object:
        return {"properties": {name: random_leaf(rng)}, "required": [name]}
    return {"minItems": rng.randint(1, 3)}


def random_leaf(rng):
    return rng.choice([{"type": "integer"}, {"type": "null"}, {"enum": ["a", 1, None]},
                       {"const": 1}, {"type": "string", "maxLength": 3}, {"type": "boolean"}])


def random_schema(rng, depth=0):
    """With keywords that refer to each other; not all have a valid text, or are supported."""
    if depth > 1 or (depth and rng.random() < 0.7):
        return random_leaf(rng)
    is_object = rng.random() < 0.6
    part = random_object if is_object else random_array
    key = "unevaluatedProperties" if is_object else "unevaluatedItems"
    out = {"type": "object", **part(rng, depth)} if is_object else {
        "type": "array", **part(rng, depth, True)}
    word = rng.choice(["allOf", "anyOf", "anyOf", "oneOf", "if", "not"])
    if word in ("allOf", "anyOf"):
        out[word] = [part(rng, depth + 1) for _ in range(rng.randint(1, 2))]
    elif word == "oneOf":
        out[word] = [random_condition(rng, is_object) for _ in range(2)]
    elif word == "not":
        out[word] = random_condition(rng, is_object)
    else:
        out.update({"if": random_condition(rng, is_object), "then": part(rng, depth + 1),
                    "else": part(rng, depth + 1)})
    if rng.random() < 0.7:
        out[key] = rng.choice([False, {"type": "null"}, {"type": "integer"}])
    return out


def cases_of(folder):
    with open(os.path.join(HERE, "cases.json"), encoding="utf-8") as file:
        cases = json.load(file, parse_float=decimal.Decimal)
    for case in cases:
        case["times"] = 4  # ours resemble real ones; the suite's are many
    rng = random.Random(RANDOM_SEED)
    for i in range(RANDOM_SCHEMAS):
        cases.append({"name": f"random {i}", "schema": random_schema(rng), "times": 1})
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
    """The model's output for each case: {"documents", "cut"} or {"error"}."""
    lines = "\n".join(json.dumps({"syntax": SYNTAXES[c["kind"]], "grammar": c["grammar"],
                                  "seed": seed, "n": n * c["times"]}) for c in cases)
    out = subprocess.run([SAMPLE, model], input=lines, capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"{SAMPLE} {model}: status {out.returncode}: {out.stderr.strip()}")
    return [json.loads(line) for line in out.stdout.split("\n") if line]


def no_constant(name):
    raise ValueError(f"{name} is not JSON")


def first_wins(pairs):
    return dict(reversed(pairs))


def schema_validator(schema):
    import jsonschema
    if isinstance(schema, dict):
        # Decimals: multipleOf must be exact.  "$schema" is not looked up.
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
