#!/usr/bin/env python3
"""Compare grammars with other implementations: the JSON-Schema-Test-Suite and llguidance.

    make build/release/grammar_match
    python3 tests/grammar/oracles.py suite FOLDER      # .../tests/draft2020-12 of the suite
    python3 tests/grammar/oracles.py random [N]        # needs jsonschema from PyPI
    python3 tests/grammar/oracles.py llguidance [N]    # needs llguidance and jsonschema from PyPI

A document is written compactly, as we would sample it. `unsound` is a bug: we accept a document
that others refuse. `narrower`: we refuse one that others accept; the order of members is one
reason.
"""
import glob
import itertools
import json
import os
import random
import subprocess
import sys

MATCH = os.environ.get("MATCH", "build/release/grammar_match")


def dump(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def match(cases):
    lines = "\n".join(json.dumps(c) for c in cases)
    out = subprocess.run([MATCH], input=lines, capture_output=True, text=True, check=True).stdout
    answers = [json.loads(line) for line in out.splitlines()]
    # Grammars that report themselves as wider than the request do not count here.
    return [{"error": "left out: " + a["left_out"][0]} if "left_out" in a else a for a in answers]


def suite(folder):
    groups = []
    for path in sorted(glob.glob(folder + "/*.json")):
        with open(path, encoding="utf-8") as file:
            groups += [(os.path.basename(path), g) for g in json.load(file)]
    answers = match([{"syntax": 0, "grammar": json.dumps(g["schema"]),
                      "texts": [dump(t["data"]) for t in g["tests"]]} for _, g in groups])
    refused = agree = unsound = narrower = 0
    for (name, group), answer in zip(groups, answers):
        if "error" in answer:
            refused += 1
            print("refused ", name, group["description"], "|", answer["error"])
            continue
        for test, is_in in zip(group["tests"], answer["matches"]):
            if is_in == test["valid"]:
                agree += 1
                continue
            unsound += is_in
            narrower += not is_in
            print("UNSOUND " if is_in else "narrower", name, group["description"], "|",
                  test["description"], dump(test["data"])[:100])
    print(f"{len(groups)} schemas, {refused} refused; {agree} documents agree, {unsound} unsound, "
          f"{narrower} narrower")
    return unsound


def random_schema(rng, depth=0):
    kinds = ["string", "integer", "boolean", "null", "enum", "number"]
    kind = rng.choice(kinds + (["object", "array", "anyOf"] * 2 if depth < 3 else []))
    if kind == "string":
        return {"type": "string", "minLength": rng.randint(0, 2), "maxLength": rng.randint(2, 5)}
    if kind in ("integer", "number"):
        low = rng.randint(-50, 50)
        return {"type": kind, "minimum": low, "maximum": low + rng.randint(0, 120)}
    if kind == "enum":
        return {"enum": rng.sample(["a", "b\n", 1, -2, None, True, "é"], 3)}
    if kind == "array":
        return {"type": "array", "items": random_schema(rng, depth + 1),
                "maxItems": rng.randint(0, 3)}
    if kind == "anyOf":
        return {"anyOf": [random_schema(rng, depth + 1) for _ in range(2)]}
    if kind == "object":
        names = rng.sample(["a", "b", "c", "key \"x\""], rng.randint(0, 3))
        return {"type": "object", "properties": {n: random_schema(rng, depth + 1) for n in names},
                "required": [n for n in names if rng.random() < 0.5],
                "additionalProperties": False}
    return {"type": kind}


def random_value(rng, schema):
    """A value that may fit: mostly by the schema, sometimes not."""
    if rng.random() < 0.1:
        return rng.choice([1, -7, "a", "", None, [], {}, {"a": 1}, 2.5, True, "éé\n\"x"])
    if "anyOf" in schema:
        return random_value(rng, rng.choice(schema["anyOf"]))
    if "enum" in schema:
        return rng.choice(schema["enum"])
    kind = schema["type"]
    if kind == "string":
        return "".join(rng.choice("ab\n\"é𝄞") for _ in range(rng.randint(0, 5)))
    if kind == "integer":
        return rng.randint(schema["minimum"] - 3, schema["maximum"] + 3)
    if kind == "number":
        return round(rng.uniform(schema["minimum"] - 3, schema["maximum"] + 3), rng.randint(1, 3))
    if kind == "array":
        return [random_value(rng, schema["items"]) for _ in range(rng.randint(0, 4))]
    if kind == "object":
        return {n: random_value(rng, s) for n, s in schema["properties"].items()
                if n in schema["required"] or rng.random() < 0.6}
    return None if kind == "null" else rng.random() < 0.5


def random_document(rng, is_array, depth=0):
    def value():
        if depth == 0 and rng.random() < 0.3:
            return random_document(rng, rng.random() < 0.5, 1)
        return rng.choice([1, 5, "a", "xyz", None, True, 1.5])
    if is_array:
        return [value() for _ in range(rng.randint(0, 4 - depth))]
    return {name: value() for name in rng.sample("abcdex", rng.randint(0, 3 - depth))}


def against_jsonschema(n):
    """Whether we accept all that fits a random schema, in some order of its members."""
    import jsonschema
    from documents import random_schema
    rng = random.Random(11)
    schemas = [random_schema(rng) for _ in range(n)]
    texts = []
    for schema in schemas:
        validator = jsonschema.Draft202012Validator(schema)
        documents = [random_document(rng, schema["type"] == "array") for _ in range(60)]
        texts.append([[dump(d)] if isinstance(d, list) else
                      [dump(dict(members)) for members in itertools.permutations(d.items())]
                      for d in documents if validator.is_valid(d)])
    answers = match([{"syntax": 0, "grammar": json.dumps(s), "texts": [t for d in ds for t in d]}
                     for s, ds in zip(schemas, texts)])
    fit = lost = 0
    for schema, documents, answer in zip(schemas, texts, answers):
        if "error" in answer and "no text at all" not in answer["error"]:
            continue
        matches = iter(answer.get("matches", itertools.repeat(False)))
        for orders in documents:
            fit += 1
            if not any([next(matches) for _ in orders]):
                lost += 1
                print("lost", dump(schema), orders[0])
    print(f"{fit} documents that fit, {lost} are not accepted")
    return lost


def against_llguidance(n):
    try:
        import jsonschema
        import llguidance
    except ImportError as lack:
        print(f"skipped: grammars compared with llguidance: {lack}")
        return 0
    tokens = [bytes([i]) for i in range(256)] + [b"\xff<end>"]

    class Bytes:
        """A vocabulary of single bytes."""
        eos_token_id = 256
        bos_token_id = None

        def __init__(self):
            self.tokens = tokens

        def __call__(self, text):
            return list(text if isinstance(text, bytes) else text.encode())

    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Bytes()))
    rng = random.Random(1)
    schemas = [random_schema(rng) for _ in range(n)]
    texts = [[dump(random_value(rng, s)) for _ in range(20)] for s in schemas]
    answers = match([{"syntax": 0, "grammar": json.dumps(s), "texts": t}
                     for s, t in zip(schemas, texts)])
    wrong = compared = 0
    for schema, documents, answer in zip(schemas, texts, answers):
        if "error" in answer:
            if "no text at all" not in answer["error"]:
                print("refused", dump(schema), answer["error"])
            continue
        grammar = llguidance.LLMatcher.grammar_from_json_schema(schema)
        for document, ours in zip(documents, answer["matches"]):
            matcher = llguidance.LLMatcher(tokenizer, grammar)
            data = document.encode()
            theirs = matcher.try_consume_tokens(list(data)) == len(data) and matcher.is_accepting()
            valid = jsonschema.Draft202012Validator(schema).is_valid(json.loads(document))
            compared += 1
            if ours != valid or ours != theirs:
                wrong += ours != valid
                print("differs", dump(schema), document, f"{ours=} {theirs=} {valid=}")
    print(f"{compared} documents, {wrong} of ours wrong by jsonschema")
    return wrong


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "suite":
        sys.exit(suite(sys.argv[2]) > 0)
    if len(sys.argv) > 1 and sys.argv[1] == "random":
        sys.exit(against_jsonschema(int(sys.argv[2]) if len(sys.argv) > 2 else 200) > 0)
    if len(sys.argv) > 1 and sys.argv[1] == "llguidance":
        sys.exit(against_llguidance(int(sys.argv[2]) if len(sys.argv) > 2 else 200) > 0)
    sys.exit(__doc__)
