"""rawsocket.py - a WebSocket client that can break every rule, for tests."""

import base64
import json
import os
import socket
import struct

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class Closed(Exception):
    """The server ended the connection; code is that of its close frame, or None."""

    def __init__(self, code=None, reason=""):
        super().__init__("closed with %s %s" % (code, reason))
        self.code = code


def frame(payload, opcode=TEXT, fin=True, mask=True, reserved=0, announced=None, key=b"\1\2\3\4"):
    """One frame; announced: a length to claim in place of the true one."""
    if isinstance(payload, str):
        payload = payload.encode()
    length = len(payload) if announced is None else announced
    head = bytes([fin << 7 | reserved << 4 | opcode])
    bit = 0x80 if mask else 0
    if length < 126:
        head += bytes([bit | length])
    elif length < 65536:
        head += bytes([bit | 126]) + struct.pack(">H", length)
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", length)
    if not mask:
        return head + payload
    if len(payload) > 65535:
        return head + b"\0\0\0\0" + payload  # a mask of zeros, which costs no time
    pad = key * (len(payload) // 4 + 1)
    return head + key + bytes(a ^ b for a, b in zip(payload, pad))


class RawSocket:
    def __init__(self, port, path="/v1/responses", headers=(), key=None, timeout=300, upgrade=True):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data = b""
        self.status, self.headers = None, ""
        if not upgrade:
            return
        lines = ["GET %s HTTP/1.1" % path, "Host: 127.0.0.1:%d" % port, "Connection: Upgrade",
                 "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                 "Sec-WebSocket-Key: " + base64.b64encode(os.urandom(16)).decode()]
        if key:
            lines.append("Authorization: Bearer " + key)
        self.send("\r\n".join(lines + list(headers)) + "\r\n\r\n")
        self.read_head()

    def read_head(self):
        while b"\r\n\r\n" not in self.data:
            self.fill()
        head, self.data = self.data.split(b"\r\n\r\n", 1)
        self.headers = head.decode("latin-1")
        self.status = int(self.headers.split(" ", 2)[1])

    def fill(self):
        try:
            more = self.socket.recv(65536)
        except ConnectionError as error:
            raise Closed() from error
        if not more:
            raise Closed()
        self.data += more

    def send(self, data):
        self.socket.sendall(data.encode() if isinstance(data, str) else data)

    def send_json(self, message):
        self.send(frame(json.dumps(message)))

    def take(self, n):
        while len(self.data) < n:
            self.fill()
        taken, self.data = self.data[:n], self.data[n:]
        return taken

    def read_frame(self):
        """(opcode, payload); raises Closed for a close frame and for the end of the stream."""
        first, second = self.take(2)
        assert first & 0x80 and not second & 0x80, "the server sent a fragment or a mask"
        length = second & 0x7F
        if length == 126:
            length = struct.unpack(">H", self.take(2))[0]
        elif length == 127:
            length = struct.unpack(">Q", self.take(8))[0]
        payload = self.take(length)
        if first & 15 == CLOSE:
            raise Closed(struct.unpack(">H", payload[:2])[0] if length > 1 else None,
                         payload[2:].decode(errors="replace"))
        return first & 15, payload

    def read_json(self):
        while True:
            opcode, payload = self.read_frame()
            if opcode == TEXT:
                return json.loads(payload)
            if opcode == PING:  # otherwise it would count as gone
                self.send(frame(payload, PONG))

    def read_answer(self):
        """All events of one response, the last one included."""
        events = []
        while True:
            events.append(self.read_json())
            if events[-1]["type"] in ("response.completed", "response.incomplete",
                                      "response.failed", "error"):
                return events

    def ask(self, text, **fields):
        self.send_json({"type": "response.create", "input": text, "store": False, **fields})
        return self.read_answer()

    def close_code(self):
        """Read until the server closes; its code, or None without a close frame."""
        try:
            while True:
                self.read_frame()
        except Closed as closed:
            return closed.code

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def text_of(events):
    return "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")
