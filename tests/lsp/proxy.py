"""proxy.py - between `cerium lsp --server` and a server: what goes by is seen, and can be cut."""

import json
import socket
import threading


class Proxy:
    """Counts what the client sends: `posts` by path, and `messages` of its WebSockets."""

    def __init__(self, port, has_sockets=True, drops=None):
        self.port_to, self.has_sockets = port, has_sockets
        self.drops = drops  # messages of this type do not reach the server
        self.posts, self.messages, self.sockets = [], [], []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        head = b""
        while b"\r\n\r\n" not in head:
            more = client.recv(65536)
            if not more:
                client.close()
                return
            head += more
        is_socket = b"Upgrade: websocket" in head
        if is_socket and not self.has_sockets:
            client.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            client.close()
            return
        try:
            server = socket.create_connection(("127.0.0.1", self.port_to))
        except OSError:
            client.close()
            return
        if is_socket:
            self.sockets.append((client, server))
        server.sendall(head)
        self.note(head, is_socket)
        threading.Thread(target=self.pump, args=(server, client), daemon=True).start()
        self.read_client(client, server, is_socket)

    def note(self, data, is_socket):
        if not is_socket and data.startswith(b"POST "):
            self.posts.append(data.split()[1].decode())

    def read_client(self, client, server, is_socket):
        frames = b""
        while True:
            try:
                more = client.recv(65536)
                if is_socket:
                    frames = self.read_frames(frames + more, server)
                elif more:
                    server.sendall(more)
                    self.note(more, False)
            except OSError:
                more = b""
            if not more:
                self.shut(client, server)
                return

    def read_frames(self, data, server):
        while len(data) >= 6:
            n, at = data[1] & 127, 2
            if n == 126:
                n, at = int.from_bytes(data[2:4], "big"), 4
            elif n == 127:
                n, at = int.from_bytes(data[2:10], "big"), 10
            if len(data) < at + 4 + n:
                break
            mask, body = data[at:at + 4], data[at + 4:at + 4 + n]
            kind = None
            if data[0] & 15 == 1:
                text = bytes(b ^ mask[i % 4] for i, b in enumerate(body))
                self.messages.append(json.loads(text))
                kind = self.messages[-1]["type"]
            if kind is None or kind != self.drops:
                server.sendall(data[:at + 4 + n])
            data = data[at + 4 + n:]
        return data

    def pump(self, server, client):
        while True:
            try:
                more = server.recv(65536)
                if more:
                    client.sendall(more)
            except OSError:
                more = b""
            if not more:
                self.shut(client, server)
                return

    @staticmethod
    def shut(*both):
        for one in both:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        """Every WebSocket is lost."""
        for both in self.sockets:
            self.shut(*both)
        self.sockets = []

    def of(self, kind):
        return [m for m in self.messages if m["type"] == kind]

    def close(self):
        self.cut()
        self.listener.close()
