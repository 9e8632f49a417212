"""soak.py - hours of mixed real traffic against one server: no error, no growth.

    soak.py [SECONDS]     default: one hour

Clients come and go: turns and follow-ups over WebSockets, lanes and steering, streams and whole
answers over HTTP in every dialect (Responses, chat, completions, Messages, Ollama, llama.cpp),
infill with newer requests that replace older ones, warm-ups, interrupts by cancel and by hanging
up, stored responses read, deleted and left for the bound of the store to remove, broken frames,
slow readers.  After a first tenth of the time the memory is noted, without the pages of the KV
cache, which fills up to its maximum; at the end it may be 5 % and 8 MB more, plus the token logs of
the newest 1,024 answers.  The store stays under its bound, and so does its file."""

import json
import os
import random
import socket
import sys
import threading
import time

from harness import Server, line, wait_for
from rawsocket import Closed, RawSocket, frame, text_of

LONG = " ".join("word%d" % i for i in range(2000))
LINES = "".join("line %d of many\n" % i for i in range(400))
TURN_KB, TURNS = 12, 1024  # of token logs; SERVER_HISTORY_TURNS_MAX
STORE_BYTES, STORE_SLACK = 256 << 10, 512 << 10  # the slack: keys, usage, pages half full
ENDS = ("response.completed", "response.incomplete")


class Client(threading.Thread):
    """One of the crowd: does random things, again and again."""

    def __init__(self, server, number, end, counts, errors):
        super().__init__(daemon=True)
        self.server, self.end = server, end
        self.counts, self.errors = counts, errors
        self.random = random.Random(number)

    def run(self):
        while time.monotonic() < self.end:
            what = self.random.choice([
                self.conversation, self.conversation, self.stream, self.whole, self.infill,
                self.infill, self.interrupt, self.hang_up, self.stored, self.broken, self.slow,
                self.model_itself, self.messages, self.ollama, self.ollama_fill, self.completion,
                self.steered, self.lanes, self.hang_up_http])
            try:
                what()
                self.counts[what.__name__] = self.counts.get(what.__name__, 0) + 1
            except Exception as error:  # each is counted and reported
                self.errors.append("%s: %r" % (what.__name__, error))
            time.sleep(self.random.random() * 0.05)

    def text(self):
        return "say hello " + " ".join("w%d" % self.random.randrange(500)
                                       for _ in range(self.random.randrange(1, 300)))

    def conversation(self):
        with RawSocket(self.server.port, timeout=60) as s:
            last = None
            if self.random.random() < 0.5:
                events = s.ask(self.text(), generate=False)
                last = events[-1]["response"]["id"]
            for _ in range(self.random.randrange(1, 5)):
                events = s.ask(self.text(), **({"previous_response_id": last} if last else {}))
                assert events[-1]["type"] in ENDS, events[-1]
                assert text_of(events) == "Hello, world.", text_of(events)
                last = events[-1]["response"]["id"]

    def stream(self):
        status, _, body = self.server.request("POST", "/v1/chat/completions", {
            "messages": [{"role": "user", "content": self.text()}], "stream": True}, timeout=60)
        assert status == 200 and body.endswith(b"data: [DONE]\n\n"), (status, body[-200:])

    def whole(self):
        answer = self.server.json("POST", "/v1/responses", {"input": self.text(), "store": False})
        assert answer["output"][0]["content"][0]["text"] == "Hello, world.", answer

    def model_itself(self):
        answer = self.server.json("POST", "/v1/completions", {
            "prompt": "int %s(" % self.text()[10:40], "max_tokens": self.random.randrange(1, 60),
            "temperature": 0.8, "seed": self.random.randrange(1 << 30)})
        assert answer["choices"][0]["finish_reason"] in ("stop", "length"), answer

    def infill(self):
        body = {"id_slot": self.random.randrange(4), "input_prefix": self.text(),
                "input_suffix": "\n}\n", "n_predict": 32, "cache_prompt": True,
                "t_max_predict_ms": 1000}
        status, _, data = self.server.request("POST", "/infill", body, timeout=60)
        assert status == 200 or (status == 409 and b"superseded" in data), (status, data[:200])

    def user(self):
        return [{"role": "user", "content": self.text() + " say hello"}]

    def post(self, path, body):
        status, _, data = self.server.request("POST", path, body, timeout=60)
        assert status == 200, (path, status, data[:300])
        return data.decode()

    def messages(self):
        stream = self.random.random() < 0.7
        said = self.post("/v1/messages", {"max_tokens": 100, "messages": self.user(),
                                          "system": "be brief", "stream": stream})
        if stream:
            assert said.endswith('data: {"type":"message_stop"}\n\n'), said[-300:]
        else:
            assert json.loads(said)["content"][0]["text"] == "Hello, world.", said

    def ollama(self):
        said = self.post("/api/chat", {"messages": self.user(),
                                       "stream": self.random.random() < 0.7})
        lines = [json.loads(one) for one in said.splitlines()]
        assert lines[-1]["done"] and lines[-1]["done_reason"] == "stop", lines[-1]
        assert "".join(one["message"]["content"] for one in lines) == "Hello, world.", said

    def ollama_fill(self):
        said = self.post("/api/generate", {
            "prompt": "int %s(" % self.text()[10:40], "suffix": "\n}\n",
            "options": {"num_predict": self.random.randrange(1, 30)}})
        assert json.loads(said.splitlines()[-1])["done"], said[-300:]

    def completion(self):
        stream = self.random.random() < 0.7
        said = self.post("/completion", {
            "prompt": "int %s(" % self.text()[10:40], "stream": stream,
            "n_predict": self.random.randrange(1, 60), "n_probs": self.random.choice([0, 3])})
        last = json.loads(said.split("data: ")[-1])
        assert last["stop"] and last["tokens_evaluated"] > 0, said[-300:]

    def steered(self):
        """An answer that a steer ends, and its successor."""
        with RawSocket(self.server.port, timeout=60) as s:
            s.send_json({"type": "response.create", "input": "many lines", "store": False})
            first = s.read_json()["response"]["id"]
            while s.read_json()["type"] != "response.output_text.delta":
                pass
            s.send_json({"type": "response.steer", "previous_response_id": first,
                         "input": self.text() + " say hello"})
            assert s.read_answer()[-1]["response"]["id"] == first
            events = s.read_answer()
            assert events[-1]["response"]["previous_response_id"] == first, events[-1]
            assert text_of(events) == "Hello, world.", text_of(events)

    def lanes(self):
        names, ended = ["a", "b", "c"], {}
        with RawSocket(self.server.port, timeout=60) as s:
            for name in names * 2:
                s.send_json({"type": "response.create", "input": self.text() + " say hello",
                             "store": False, "stream_id": name})
            while sum(ended.values()) < 6:
                event = s.read_json()
                assert event["type"] not in ("error", "response.failed"), event
                if event["type"] in ENDS:
                    ended[event["stream_id"]] = ended.get(event["stream_id"], 0) + 1

    def hang_up_http(self):
        path, body = self.random.choice([
            ("/v1/messages", {"max_tokens": 2000, "messages": [
                {"role": "user", "content": "talk for long"}], "stream": True}),
            ("/api/chat", {"messages": [{"role": "user", "content": "talk for long"}]}),
            ("/v1/responses", {"input": "talk for long", "stream": True})])
        data = json.dumps(body).encode()
        head = "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self.server.port), 60) as s:
            s.sendall((head % (path, len(data))).encode() + data)
            for _ in range(self.random.randrange(0, 10)):
                assert s.recv(4096)

    def interrupt(self):
        with RawSocket(self.server.port, timeout=60) as s:
            s.send_json({"type": "response.create", "input": "talk for long", "store": False})
            events = [s.read_json() for _ in range(self.random.randrange(5, 60))]
            number = events[0]["response"]["id"]
            s.send_json({"type": "response.cancel", "response_id": number})
            s.read_answer()
            assert text_of(s.ask("say hello", previous_response_id=number)) == "Hello, world."

    def hang_up(self):
        with RawSocket(self.server.port, timeout=60) as s:
            s.send_json({"type": "response.create", "input": "talk for long", "store": False})
            for _ in range(self.random.randrange(1, 40)):
                s.read_json()

    def stored(self):
        answer = self.server.json("POST", "/v1/responses", {"input": self.text()})
        path = "/v1/responses/" + answer["id"]
        assert self.server.json("GET", path)["id"] == answer["id"]
        if self.random.random() < 0.2:
            assert self.server.json("DELETE", path)["deleted"]

    def broken(self):
        data = self.random.choice([
            b"\x16\x03\x01", b"GET / HTTP/1.1\r\nHost", b"POST /v1/responses HTTP/1.1\r\n\r\n{",
            frame("hello"), b"\0" * 1000])
        if self.random.random() < 0.5:
            with socket.create_connection(("127.0.0.1", self.server.port), 5) as s:
                s.sendall(data)
            return
        with RawSocket(self.server.port) as s:
            s.send(self.random.choice([frame("x", mask=False), frame(b"\xff"), frame("{"),
                                       frame("x", announced=1 << 40), frame("x", opcode=7)]))
            try:
                s.read_frame()
            except Closed:
                pass

    def slow(self):
        with RawSocket(self.server.port, timeout=60) as s:
            s.send_json({"type": "response.create", "input": "talk for long", "store": False,
                         "max_output_tokens": 200})
            time.sleep(self.random.random())
            assert s.read_answer()[-1]["type"] in ENDS


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3600
    counts, errors, early, early_done = {}, [], None, 0
    script = [line(LONG, repeat=True, last="talk for long"),
              line(LINES, repeat=True, last="many lines"),
              line("Hello, world.", repeat=True, last="say hello")]
    with Server(replay=script, context=8192, args=["--store-max", str(STORE_BYTES)]) as server:
        begin = time.monotonic()
        clients = [Client(server, i, begin + seconds, counts, errors) for i in range(8)]
        for client in clients:
            client.start()
        while any(client.is_alive() for client in clients):
            time.sleep(min(10, seconds / 20))
            passed = time.monotonic() - begin
            if server.process.poll() is not None:
                errors.append("the server ended: " + server.log())
                break
            if early is None and passed > seconds / 10:
                early, early_done = server.memory_kb(), sum(counts.values())
            print("%6.0f s  %7d done  %d errors  %d kB beside the KV cache" % (
                passed, sum(counts.values()), len(errors), server.memory_kb()), flush=True)
        if server.process.poll() is None:
            wait_for(lambda: server.running() == 0)
            late, files = server.memory_kb(), len(os.listdir("/proc/%d/fd" % server.process.pid))
            logs = min(TURNS, sum(counts.values()) - early_done) * TURN_KB
            if late > early * 1.05 + 8192 + logs:
                errors.append("memory grew from %d to %d kB" % (early, late))
            if server.metric("cerium_failed_total"):
                errors.append("%d answers failed" % server.metric("cerium_failed_total"))
            print("memory: %d kB, then %d kB; %d files open" % (early, late, files))
            stored, expired = (server.metric("cerium_store_bytes"),
                               server.metric("cerium_store_expired_total"))
            if stored > STORE_BYTES:
                errors.append("%d bytes are stored" % stored)
            print("store: %d bytes, %d responses removed" % (stored, expired))
            if server.stop():
                errors.append("it did not shut down cleanly: " + server.log())
            size = os.path.getsize(os.path.join(server.folder, "store.db"))
            if size > STORE_BYTES + STORE_SLACK:
                errors.append("the store's file has %d bytes" % size)
    print(json.dumps(counts))
    for error in errors[:20]:
        print("  FAIL " + error)
    print("soak: %d passed, %d failed" % (sum(counts.values()), len(errors)))
    sys.exit(bool(errors) or not counts)


main()
