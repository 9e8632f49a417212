"""check_openapi.py - docs/openapi.yaml is valid, and its examples fit it, and so do the
messages that docs/server.md shows.

    python3 check_openapi.py docs/openapi.yaml docs/server.md

Prints one line for each fault.  Needs openapi-spec-validator, which brings jsonschema and
PyYAML."""

import json
import re
import sys

import jsonschema
import openapi_spec_validator
import yaml

# Messages over WebSocket by their type.
MESSAGES = {
    "completion.create": "CompletionCreateMessage",
    "completion.cancel": "CompletionCancelMessage",
    "completion.delta": "CompletionDeltaMessage",
    "completion.keepalive": "CompletionKeepaliveMessage",
    "completion.done": "CompletionDoneMessage",
    "response.cancel": "ResponseCancelMessage",
    "response.steer": "ResponseSteerMessage",
    "response.steer.accepted": "SteerAcceptedMessage",
    "response.steer.pending": "SteerPendingMessage",
    "response.steer.failed": "SteerFailedMessage",
}


def faults_of(spec, schema, value, where):
    whole = {"$schema": "https://json-schema.org/draft/2020-12/schema", **spec, **schema}
    for error in jsonschema.Draft202012Validator(whole).iter_errors(value):
        yield "%s: %s" % (where, error.message)


def examples(node, where=""):
    """Every schema with examples, and every media type with some: (schema, value, where)."""
    if isinstance(node, list):
        for i, one in enumerate(node):
            yield from examples(one, "%s[%d]" % (where, i))
    if not isinstance(node, dict):
        return
    named = node.get("examples")
    if isinstance(named, dict) and "schema" in node:
        for name, one in named.items():
            yield node["schema"], one["value"], "%s example %s" % (where, name)
    if isinstance(named, list):
        for one in named:
            yield {k: v for k, v in node.items() if k != "examples"}, one, where + " example"
    for key, one in node.items():
        if key != "examples":
            yield from examples(one, where + "/" + str(key))


def messages(text):
    """The JSON objects in ```json blocks, and `{"type": ...}` in running text."""
    found = re.findall(r"```json\n(.*?)```", text, re.S) + re.findall(r'`(\{"type".*?\})`', text)
    for block in found:
        while block.strip():
            try:
                value, end = json.JSONDecoder().raw_decode(block.lstrip())
            except json.JSONDecodeError:
                break  # a sketch of a shape, not an example
            yield value
            block = block.lstrip()[end:]


def main(spec_path, page_path):
    with open(spec_path) as f:
        spec = yaml.safe_load(f)
    with open(page_path) as f:
        page = f.read()
    faults = [str(e) for e in openapi_spec_validator.OpenAPIV31SpecValidator(spec).iter_errors()]
    n_examples = 0
    for schema, value, where in examples(spec):
        n_examples += 1
        faults += faults_of(spec, schema, value, where)
    seen = set()
    for message in messages(page):
        name = MESSAGES.get(message.get("type"))
        if name:
            seen.add(name)
            reference = {"$ref": "#/components/schemas/" + name}
            faults += faults_of(spec, reference, message, "%s: %s" % (page_path, message["type"]))
    faults += ["%s shows no %s" % (page_path, name) for name in set(MESSAGES.values()) - seen]
    ids = [op["operationId"] for path in spec["paths"].values() for op in path.values()
           if isinstance(op, dict) and "operationId" in op]
    faults += ["operationId %s is there twice" % i for i in set(ids) if ids.count(i) > 1]
    print("\n".join(faults) or "%d operations, %d examples" % (len(ids), n_examples))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
