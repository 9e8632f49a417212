"""talk.py - for the tests of this folder: a recorded model with known answers, and requests."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))

from harness import (  # noqa: E402, F401
    HANG_S, MODEL, PATIENCE, ROOT, Report, Server, line, wait_for)
from rawsocket import RawSocket, frame, text_of  # noqa: E402, F401

POST = b"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
LONG = " ".join("word%d" % i for i in range(400))
SCRIPT = [
    line(LONG, repeat=True, last="talk for long"),
    line("first", repeat=True, last="say first"),
    line("second", repeat=True, last="say second"),
    line("redirected", repeat=True, last="be brief"),
    line("return a + b;", repeat=True, last="int add("),
]


def create(text, **fields):
    return {"type": "response.create", "input": text, "store": False, **fields}


def usage_of(events):
    return events[-1]["response"]["usage"]


def cached(events):
    return usage_of(events)["input_tokens_details"]["cached_tokens"]


def wait_delta(s):
    """Read until text comes; the id of the response."""
    while True:
        event = s.read_json()
        if event["type"] == "response.created":
            response_id = event["response"]["id"]
        if event["type"] == "response.output_text.delta":
            return response_id


def large_schema(name):
    """Not in any cache, and compiled for tenths of a second."""
    text = {"type": "string", "pattern": "^(/|~)[^%s]*$" % name, "maxLength": 2000}
    return {"type": "object", "properties": {name: text, "small": text}, "required": [name],
            "additionalProperties": False}


def shaped(schema):
    return {"input": "x", "store": False, "max_output_tokens": 8,
            "text": {"format": {"type": "json_schema", "name": "x", "strict": True,
                                "schema": schema}}}
