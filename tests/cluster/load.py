"""load.py - sessions like those of agents, through a balancer: each turn has all turns before
it."""

import http.client
import json
import threading
import time

from rawsocket import Closed, RawSocket

WORDS = "the parser reads a line and the table keeps what it means for each name in it".split()


def text_of(session, turn, n_words=40):
    return " ".join("%s%d" % (WORDS[(session + turn + i) % len(WORDS)], session)
                    for i in range(n_words))


class Session:
    """One session over HTTP.  `turns`: (replica, cached, prompt) of each that was answered."""

    def __init__(self, number, port, key, host="127.0.0.1"):
        self.number, self.port, self.key, self.host = number, port, key, host
        self.name = "session-%d" % number
        self.messages, self.turns, self.errors = [], [], []
        self.in_flight = None  # start of the running turn

    def n_turns(self):
        return len(self.turns)

    def last_replica(self):
        return self.turns and self.turns[-1][0]

    def turn(self):
        message = {"role": "user", "content": text_of(self.number, len(self.turns))}
        body = {"model": "cerium-line", "messages": self.messages + [message], "max_tokens": 4}
        self.in_flight = time.monotonic()
        try:
            c = http.client.HTTPConnection(self.host, self.port, timeout=600)
            c.request("POST", "/v1/chat/completions", json.dumps(body),
                      {"Authorization": "Bearer " + self.key, "session-id": self.name,
                       "Content-Type": "application/json"})
            answer = c.getresponse()
            data = answer.read()
            c.close()
            if answer.status != 200:
                raise AssertionError("%d: %s" % (answer.status, data[:200]))
            told = json.loads(data)
            used = told["usage"]
        except (OSError, http.client.HTTPException, AssertionError, ValueError) as error:
            self.errors.append((self.in_flight, time.monotonic(), repr(error)))
            return False
        finally:
            self.in_flight = None
        self.turns.append((answer.headers["x-cerium-replica"],
                           used["prompt_tokens_details"]["cached_tokens"], used["prompt_tokens"]))
        self.messages += [message, {"role": "assistant",
                                    "content": told["choices"][0]["message"]["content"] or "."}]
        if len(self.turns) % 8 == 0:  # the model's context is short
            self.messages = []
        return True


class SocketSession:
    """One over WebSocket, as Codex does it: only new items, and everything once more if the
    server hung up before any text of the answer."""

    def __init__(self, number, port, key):
        self.number, self.port, self.key = number, port, key
        self.name = "socket-%d" % number
        self.items, self.last, self.socket, self.replica = [], None, None, None
        self.turns, self.errors, self.moves = 0, [], 0

    def n_turns(self):
        return self.turns

    def last_replica(self):
        return self.replica

    def connect(self):
        self.socket = RawSocket(self.port, key=self.key, headers=["session-id: " + self.name])
        self.last = None
        assert self.socket.status == 101, self.socket.status
        self.replica = next(line.split(": ")[1] for line in self.socket.headers.split("\r\n")
                            if line.lower().startswith("x-cerium-replica"))

    def ask(self, item):
        body = {"type": "response.create", "model": "cerium-line", "max_output_tokens": 4,
                "input": [item] if self.last else self.items + [item]}
        if self.last:
            body["previous_response_id"] = self.last
        self.socket.send_json(body)
        while True:
            event = self.socket.read_json()
            self.begun = event["type"] != "error"
            if event["type"] == "error":
                raise AssertionError(event)
            if event["type"] in ("response.completed", "response.incomplete"):
                return event["response"]
            if event["type"] == "response.failed":
                raise AssertionError(event)

    def turn(self):
        item = {"type": "message", "role": "user",
                "content": [{"type": "input_text", "text": text_of(self.number, self.turns)}]}
        for _ in range(3):
            self.begun = False
            try:
                if not self.socket:
                    self.connect()
                answer = self.ask(item)
            except (Closed, OSError) as end:
                # No text arrived: it is asked again elsewhere, as Codex does.
                if self.begun:
                    self.errors.append(repr(end))
                self.socket, self.moves = None, self.moves + 1
                continue
            except AssertionError as error:
                self.errors.append(str(error)[:300])
                self.socket = None
                return
            self.last = answer["id"]
            self.items += [item] + [{k: v for k, v in o.items() if k in ("type", "role", "content")}
                                    for o in answer["output"] if o["type"] == "message"]
            self.turns += 1
            if self.turns % 8 == 0:
                self.items, self.last = [], None
            return
        self.errors.append("three times")


class Load:
    """Endless sessions, each in a thread, until stopped."""

    def __init__(self, sessions):
        self.sessions, self.ends = sessions, threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(s,), daemon=True) for s in sessions]

    def run(self, session):
        while not self.ends.is_set():
            session.turn()
            self.ends.wait(0.05)

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        for t in self.threads:
            t.join(600)

    def n_turns(self):
        return sum(s.n_turns() for s in self.sessions)
