"""add_keys.py - add keys to a GGUF file; its weights do not change.

    python add_keys.py IN OUT cerium.confidence=0.1 cerium.completes_only=true

Numbers become float32, true and false booleans, everything else strings.  An existing
key is an error.
"""

import struct
import sys

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY, FLOAT32, BOOL = 8, 9, 6, 7
ALIGNMENT = 32  # without general.alignment


def string_end(data, at):
    return at + 8 + struct.unpack_from("<Q", data, at)[0]


def value_end(data, at, kind):
    if kind == STRING:
        return string_end(data, at)
    if kind != ARRAY:
        return at + SIZES[kind]
    kind, n = struct.unpack_from("<IQ", data, at)
    at += 12
    if kind != STRING:
        return at + n * SIZES[kind]
    for _ in range(n):
        at = string_end(data, at)
    return at


def encoded(key, text):
    name = key.encode()
    head = struct.pack("<Q", len(name)) + name
    if text in ("true", "false"):
        return head + struct.pack("<IB", BOOL, text == "true")
    try:
        return head + struct.pack("<If", FLOAT32, float(text))
    except ValueError:
        value = text.encode()
        return head + struct.pack("<IQ", STRING, len(value)) + value


def main():
    source, target, *pairs = sys.argv[1:]
    with open(source, "rb") as f:
        data = f.read()
    magic, version, n_tensors, n_keys = struct.unpack_from("<4sIQQ", data)
    assert magic == b"GGUF" and version == 3, "not GGUF 3"
    at, known = 24, set()
    for _ in range(n_keys):
        end = string_end(data, at)
        known.add(data[at + 8 : end].decode())
        at = value_end(data, end + 4, struct.unpack_from("<I", data, end)[0])
    assert "general.alignment" not in known, "another alignment"
    keys_end = at
    for _ in range(n_tensors):
        at = string_end(data, at)
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 4 + 8
    weights = -(-at // ALIGNMENT) * ALIGNMENT
    new = b""
    for pair in pairs:
        key, text = pair.split("=")
        assert key not in known, key + " is there already"
        new += encoded(key, text)
    head = struct.pack("<4sIQQ", magic, version, n_tensors, n_keys + len(pairs))
    head += data[24:keys_end] + new + data[keys_end:at]
    with open(target, "wb") as f:
        f.write(head + b"\0" * (-len(head) % ALIGNMENT) + data[weights:])


main()
