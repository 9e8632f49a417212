"""transport_frames.py - WebSocket (RFC 6455): handshakes, frames in pieces, frames that are wrong,
and unread bursts."""

import base64
import os
import struct

from rawsocket import BINARY, CLOSE, PING, PONG, TEXT
from wire import (HOST, PATIENCE, WAIT_S, Closed, Ended, RawSocket, Wire, check_error, frame,
                  request, serves)

CONTINUATION = 0
MESSAGE_BYTES_MAX = 32 << 20
BURST = 2000


def upgrade(path="/v1/responses", key=None, method="GET", version=b"1.1", **fields):
    """The head of a handshake; fields replace its own, None leaves one out."""
    own = {"Host": "localhost", "Connection": "Upgrade", "Upgrade": "websocket",
           "Sec-WebSocket-Version": "13",
           "Sec-WebSocket-Key": key or base64.b64encode(os.urandom(16)).decode()}
    own.update({name.replace("_", "-"): value for name, value in fields.items()})
    lines = ["%s: %s" % (name, value) for name, value in own.items() if value is not None]
    return ("%s %s HTTP/%s\r\n" % (method, path, version.decode())).encode() + "\r\n".join(
        lines).encode() + b"\r\n\r\n"


def message(n):
    """A message whose error says which one it was."""
    return '{"type": "response.create", "previous_response_id": "resp_%d", "input": "x"}' % n


def read_error(s, n):
    event = s.read_json()
    assert event["type"] == "error" and "resp_%d" % n in event["error"]["message"], event


def raw(port):
    """A RawSocket that has not asked for anything yet."""
    return RawSocket(port, timeout=WAIT_S, upgrade=False)


# ---- handshakes ----

WRONG = {
    "no key": (upgrade(Sec_WebSocket_Key=None), [400]),
    "a key that is no base64": (upgrade(key="!" * 24), [400]),
    "two keys": (upgrade(Sec_websocket_key="AAAAAAAAAAAAAAAAAAAAAA=="), [400]),
    "a short key": (upgrade(key="AAAA"), [400]),
    "a key of 17 bytes": (upgrade(key=base64.b64encode(b"x" * 17).decode()), [400]),
    "a key of 100 KB": (upgrade(key="A" * 100000), [400, 431]),
    "no version": (upgrade(Sec_WebSocket_Version=None), [400, 426]),
    "version 8": (upgrade(Sec_WebSocket_Version="8"), [400, 426]),
    "version 14": (upgrade(Sec_WebSocket_Version="14"), [400, 426]),
    "version x": (upgrade(Sec_WebSocket_Version="x"), [400, 426]),
    "POST": (upgrade(method="POST"), [400, 405, 426]),
    "HTTP/1.0": (upgrade(version=b"1.0"), [200, 400, 426]),
    "no Connection": (upgrade(Connection=None), [200, 400, 426]),
    "Connection: close": (upgrade(Connection="close"), [200, 400, 426]),
    "another path": (upgrade("/v1/models"), [200, 400, 404, 405, 426]),
    "no path": (upgrade("/nothing/5"), [400, 404, 426]),
    "h2c": (upgrade(Upgrade="h2c"), [200, 400, 426]),
}


def check_handshakes(report, server):
    for name, (data, statuses) in WRONG.items():
        with report.serving("handshake: " + name, server):
            with Wire(server.port) as w:
                w.send(data)
                answer = w.read_answer()
                assert answer.status in statuses, (answer.status, answer.body[:200])
                if answer.status >= 400:
                    check_error(answer)
                if answer.status == 426:
                    assert answer.headers["sec-websocket-version"] == "13", answer.headers
    right = {"any case": upgrade(Upgrade="WebSocket", Connection="keep-alive, UPGRADE"),
             "an unknown subprotocol": upgrade(Sec_WebSocket_Protocol="other"),
             "an extension": upgrade(Sec_WebSocket_Extensions="permessage-deflate"),
             "arguments": upgrade("/v1/responses?model=x"),
             "without /v1": upgrade("/responses")}
    for name, data in right.items():
        with report.serving("handshake: " + name, server), raw(server.port) as s:
            s.send(data)
            s.read_head()
            assert s.status == 101, s.headers
            for field in ("sec-websocket-protocol", "sec-websocket-extensions"):
                assert field not in s.headers.lower(), s.headers
            s.send(frame(message(5)))
            read_error(s, 5)
    with report.serving("handshake: the key of RFC 6455, 1.3", server), raw(server.port) as s:
        s.send(upgrade(key="dGhlIHNhbXBsZSBub25jZQ=="))
        s.read_head()
        assert "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in s.headers, s.headers
    with report.serving("handshake: our subprotocol, among several", server):
        with raw(server.port) as s:
            s.send(upgrade(Sec_WebSocket_Protocol="other, cerium"))
            s.read_head()
            assert "sec-websocket-protocol: cerium" in s.headers.lower(), s.headers
    with report.serving("handshake: after other requests, frames right after it", server):
        with raw(server.port) as s:
            wire = Wire.__new__(Wire)
            wire.socket, wire.data = s.socket, b""
            s.send(request("GET", "/nothing/3") + request("POST", "/tokenize", {"content": "x"}) +
                   upgrade() + frame(message(4)) + frame(message(5)))
            assert b"/nothing/3" in wire.read_answer().body
            assert wire.read_answer().status == 200
            s.data = wire.data
            s.read_head()
            assert s.status == 101, s.headers
            read_error(s, 4)
            read_error(s, 5)
    for name, fields in (("a body", {"Content_Length": "5"}),
                         ("a body in chunks", {"Transfer_Encoding": "chunked"})):
        body = b"hello" if "Content_Length" in fields else b"5\r\nhello\r\n0\r\n\r\n"
        with report.serving("handshake: with " + name, server), raw(server.port) as s:
            s.send(upgrade(**fields) + body + frame(message(6)))
            s.read_head()
            assert s.status in (101, 200, 400, 426), s.headers
            if s.status == 101:
                read_error(s, 6)


# ---- frames in pieces ----

def pieces(n):
    """A handshake and a message in three frames with pings between them."""
    text = message(n).encode()
    return upgrade() + frame(text[:7], fin=False) + frame("one", PING) + frame(
        text[7:30], CONTINUATION, fin=False) + frame("", PING) + frame("two", PONG) + frame(
        text[30:], CONTINUATION)


def read_pieces(s, n):
    s.read_head()
    assert s.status == 101, s.headers
    frames = [s.read_frame() for _ in range(3)]
    assert frames[:2] == [(PONG, b"one"), (PONG, b"")], frames
    assert frames[2][0] == TEXT and b"resp_%d" % n in frames[2][1], frames


def check_pieces(report, server):
    with report.serving("frames: in fragments among pings, cut at every byte", server):
        length = len(pieces(100))
        for begin in range(1, length, 64):
            sockets = []
            for cut in range(begin, min(begin + 64, length)):
                data = pieces(100 + cut % 10)
                sockets.append((raw(server.port), data[cut:], 100 + cut % 10, cut))
                sockets[-1][0].send(data[:cut])
            assert serves(server), "no client is answered at a cut from %d" % begin
            for s, rest, n, cut in sockets:
                s.send(rest)
            for s, rest, n, cut in sockets:
                try:
                    read_pieces(s, n)
                except (Closed, AssertionError, OSError) as error:
                    raise AssertionError("cut at %d: %r" % (cut, error))
                s.close()
    with report.serving("frames: byte by byte", server), raw(server.port) as s:
        for byte in pieces(107):
            s.send(bytes([byte]))
        read_pieces(s, 107)
    with report.serving("frames: a character in two fragments", server):
        with RawSocket(server.port, timeout=WAIT_S) as s:
            text = message(8).replace('"x"', '"\u00e9\u20ac\U0001f600"').encode()
            for cut in range(len(text) - 12, len(text)):
                s.send(frame(text[:cut], fin=False) + frame("", CONTINUATION, fin=False) +
                       frame(text[cut:], CONTINUATION))
                read_error(s, 8)


# ---- frames that are wrong ----

def lengths(head, length, n_bytes):
    """A frame that claims n bytes, and its first byte."""
    return bytes([0x81, 0x80 | head]) + length.to_bytes(n_bytes, "big") + b"\0\0\0\0x"


BROKEN = {
    "no mask": (frame("{}", mask=False), [1002]),
    "no mask on a ping": (frame("x", PING, mask=False), [1002]),
    "no mask on a long one": (frame("x" * 70000, mask=False), [1002]),
    "reserved bit 1": (frame("{}", reserved=4), [1002]),
    "reserved bit 2": (frame("{}", reserved=2), [1002]),
    "reserved bit 3": (frame("{}", reserved=1), [1002]),
    "reserved bit of a continuation": (frame("{", fin=False) + frame("}", 0, reserved=4), [1002]),
    **{"opcode %d" % n: (frame("{}", n), [1002]) for n in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)},
    "a ping of 126 bytes": (frame("x" * 126, PING), [1002]),
    "a pong of 70,000 bytes": (frame("x" * 70000, PONG), [1002]),
    "a close of 126 bytes": (frame(b"\x03\xe8" + b"x" * 124, CLOSE), [1002]),
    "a ping in fragments": (frame("x", PING, fin=False), [1002]),
    "a close in fragments": (frame(b"\x03\xe8", CLOSE, fin=False), [1002]),
    "a continuation of nothing": (frame("x", CONTINUATION), [1002]),
    "a message within another": (frame("{", fin=False) + frame("{}"), [1002]),
    "a long length for a short one": (lengths(126, 2, 2) + b"{}", [1002]),
    "the longest length for a short one": (lengths(127, 2, 8) + b"{}", [1002]),
    "length 2^63": (lengths(127, 1 << 63, 8), [1002, 1009]),
    "length 2^63 - 1": (lengths(127, (1 << 63) - 1, 8), [1009]),
    "one byte over 32 MiB": (lengths(127, MESSAGE_BYTES_MAX + 1, 8), [1009]),
    "one byte over 32 MiB, its head alone": (lengths(127, MESSAGE_BYTES_MAX + 1, 8)[:10], [1009]),
    "length 2^63 - 1, its head alone": (lengths(127, (1 << 63) - 1, 8)[:10], [1009]),
    "over 32 MiB in fragments, the last head alone": (
        frame(b" " * MESSAGE_BYTES_MAX, fin=False) + frame(b" ", CONTINUATION)[:2], [1009]),
    "over 32 MiB in fragments": (frame(b" " * (MESSAGE_BYTES_MAX - 10), fin=False) + frame(
        b" " * 11, CONTINUATION), [1009]),
    "over 32 MiB in 33 fragments": (frame(b"{", fin=False) + frame(
        b" " * (1 << 20), CONTINUATION, fin=False) * 33, [1009]),
    "binary": (frame(b"{}", BINARY), [1003]),
    "binary in fragments": (frame(b"{", BINARY, fin=False) + frame(b"}", CONTINUATION), [1003]),
    "no UTF-8": (frame(b"\xff"), [1007]),
    "UTF-8 cut short": (frame(b'"\xe2\x82'), [1007]),
    "a surrogate": (frame(b'"\xed\xa0\x80"'), [1007]),
    "an overlong NUL": (frame(b'"\xc0\x80"'), [1007]),
    "beyond U+10FFFF": (frame(b'"\xf4\x90\x80\x80"'), [1007]),
    "no UTF-8 in a later fragment": (frame(b'"', fin=False) + frame(b"\xff", CONTINUATION), [1007]),
    "a close of one byte": (frame(b"\x03", CLOSE), [1002]),
    "a close of one byte, its head alone": (frame(b"\x03", CLOSE)[:2], [1002]),
    "a close with 1005": (frame(struct.pack(">H", 1005), CLOSE), [1002]),
    "a close with 999": (frame(struct.pack(">H", 999), CLOSE), [1002]),
    "a close with 5000": (frame(struct.pack(">H", 5000), CLOSE), [1002]),
    "a close whose reason is no UTF-8": (frame(b"\x03\xe8\xff", CLOSE), [1002, 1007]),
    "a close": (frame(struct.pack(">H", 1000) + b"bye", CLOSE), [1000]),
    "an empty close": (frame(b"", CLOSE), [None, 1000]),
    "a close of our own": (frame(struct.pack(">H", 4321), CLOSE), [4321, 1000]),
}


def end_of(s):
    """Closing code, and that the connection then ends in order."""
    code = s.close_code()
    try:
        while s.socket.recv(65536):
            raise AssertionError("bytes after the closing frame")
    except ConnectionResetError:
        raise AssertionError("reset after the closing frame")
    return code


def check_broken(report, server):
    for name, (data, codes) in BROKEN.items():
        with report.serving("frames: " + name, server):
            for more in (b"", frame("{}") * 20000):  # the client still sends
                with RawSocket(server.port, timeout=WAIT_S) as s:
                    try:
                        s.send(data + more)
                    except (BrokenPipeError, ConnectionResetError):
                        assert more, "the end came before the closing frame could be read"
                    code = end_of(s)
                    assert code in codes, code


# ---- bursts ----

def ending(s):
    """Reads until the end, of either kind; returns the bytes."""
    n = 0
    try:
        while True:
            got = s.socket.recv(1 << 20)
            if not got:
                return n
            n += len(got)
    except (ConnectionResetError, BrokenPipeError):
        return n


def check_bursts(report, server):
    create = '{"type": "response.create", "input": "say first", "store": false, "generate": false}'
    bursts = {
        "faults": frame("x") * BURST,
        "faults of some size": frame('{"type": "%s"}' % ("x" * 2000)) * BURST,
        "creates": frame(create) * BURST,
        "creates and faults": (frame(create) + frame("x") * 20) * 50,
        "pings": frame("p" * 125, PING) * BURST,
        "faults and pings": (frame("x") + frame("p", PING)) * BURST,
        "faults, then a close": frame("x") * BURST + frame(b"\x03\xe8", CLOSE),
        "closes": (frame("x") + frame(b"\x03\xe8", CLOSE)) * BURST,
        "empty messages": frame("") * BURST,
        "fragments of nothing": frame("", fin=False) + frame("", CONTINUATION, fin=False) * BURST,
        "half a frame at the end": frame("x") * BURST + frame("x" * 100)[:50],
        "cancels": frame('{"type": "response.cancel"}') * BURST,
        "completions": frame('{"type": "completion.create", "id": "c", "prefix": "x", '
                             '"max_tokens": 1}') * 200,
    }
    for name, data in bursts.items():
        with report.serving("a burst of %s, nothing read, FIN" % name, server):
            with RawSocket(server.port, timeout=2 * WAIT_S) as s:
                push(s, data)
                end_writing(s)
                assert serves(server), "it hangs"
                ending(s)
        with report.serving("a burst of %s, nothing read, a reset" % name, server):
            with RawSocket(server.port, timeout=WAIT_S) as s:
                push(s, data)
                Wire.reset(s)
    with report.serving("a burst of faults, read to its end: an error each", server):
        with RawSocket(server.port, timeout=WAIT_S) as s:
            push(s, frame("x") * BURST)
            for _ in range(BURST):
                assert s.read_json()["type"] == "error"
            s.send(frame(message(9)))
            read_error(s, 9)
    with report.serving("a burst after the handshake in one segment, FIN", server):
        with raw(server.port) as s:
            push(s, upgrade() + frame("x") * BURST)
            end_writing(s)
            assert serves(server), "it hangs"
            ending(s)


def push(s, data):
    """Sends as much as the server takes while nothing is read."""
    s.socket.settimeout(0.2 * PATIENCE)
    try:
        s.socket.sendall(data)
    except (TimeoutError, BrokenPipeError, ConnectionResetError):
        pass
    s.socket.settimeout(2 * WAIT_S)


def end_writing(s):
    Wire.end_writing(s)


def check_frames(report, server):
    check_handshakes(report, server)
    check_pieces(report, server)
    check_broken(report, server)
    check_bursts(report, server)
