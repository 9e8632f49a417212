"""fake_kubernetes.py - the part of Kubernetes' API that the endpoint picker uses: one
InferencePool, a pod for each host, and watches.  Readiness of pods is by /health/ready, as for a
kubelet."""

import contextlib
import json
import re
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GROUP = "inference.networking.k8s.io"
LABELS = {"app": "cerium"}
POOL = {"apiVersion": GROUP + "/v1", "kind": "InferencePool",
        "metadata": {"name": "cerium", "namespace": "default", "uid": "1", "resourceVersion": "1",
                     "generation": 1},
        "spec": {"selector": {"matchLabels": LABELS}, "targetPorts": [{"number": 8383}],
                 "endpointPickerRef": {"name": "picker", "port": {"number": 9002}}}}


def resources(group_version, *names):
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
            "resources": [{"name": n, "singularName": "", "namespaced": True, "kind": k,
                           "verbs": ["get", "list", "watch"]} for n, k in names]}


class Kubernetes:
    def __init__(self, hosts):
        self.hosts, self.changed, self.version = hosts, threading.Condition(), 1
        self.ready = {name: True for name in hosts}
        self.events = []  # pods, as they changed
        self.ends = threading.Event()
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                with contextlib.suppress(OSError):
                    fake.answer(self)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        threading.Thread(target=self.probe, daemon=True).start()

    def pod(self, name):
        return {"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "namespace": "default", "uid": name, "labels": LABELS,
                             "resourceVersion": str(self.version)},
                "spec": {"containers": []},
                "status": {"phase": "Running", "podIP": self.hosts[name],
                           "conditions": [{"type": "Ready",
                                           "status": "True" if self.ready[name] else "False"}]}}

    def probe(self):
        """The readiness probe of each pod, once a second."""
        while not self.ends.is_set():
            for name, address in self.hosts.items():
                try:
                    url = "http://%s:9383/health/ready" % address
                    with urllib.request.urlopen(url, timeout=5) as answer:
                        is_ready = answer.status == 200
                except OSError:
                    is_ready = False
                with self.changed:
                    if is_ready != self.ready[name]:
                        self.ready[name], self.version = is_ready, self.version + 1
                        self.events.append(self.pod(name))
                        self.changed.notify_all()
            time.sleep(1)

    def close(self):
        self.ends.set()
        self.server.shutdown()

    # ---- answers ----

    def send(self, handler, body, status=200):
        data = json.dumps(body).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def answer(self, handler):
        path, _, query = handler.path.partition("?")
        if "watch=" in query and "sendInitialEvents=true" in query:
            # The client lists and watches then.
            self.send(handler, {"kind": "Status", "apiVersion": "v1", "status": "Failure",
                                "reason": "Invalid", "code": 422}, 422)
        elif "watch=" in query:
            since = re.search(r"resourceVersion=(\d+)", query)
            self.watch(handler, path.endswith("/pods"), int(since.group(1)) if since else 0)
        elif path == "/api":
            self.send(handler, {"kind": "APIVersions", "versions": ["v1"]})
        elif path == "/apis":
            version = {"groupVersion": GROUP + "/v1", "version": "v1"}
            self.send(handler, {"kind": "APIGroupList", "apiVersion": "v1", "groups": [
                {"name": GROUP, "versions": [version], "preferredVersion": version}]})
        elif path == "/api/v1":
            self.send(handler, resources("v1", ("pods", "Pod")))
        elif path == "/apis/%s/v1" % GROUP:
            self.send(handler, resources(GROUP + "/v1", ("inferencepools", "InferencePool")))
        elif path.endswith("/pods"):
            with self.changed:
                pods = [self.pod(name) for name in self.hosts]
            self.send(handler, {"kind": "PodList", "apiVersion": "v1", "items": pods,
                                "metadata": {"resourceVersion": str(self.version)}})
        elif path.endswith("/inferencepools"):
            self.send(handler, {"kind": "InferencePoolList", "apiVersion": GROUP + "/v1",
                                "metadata": {"resourceVersion": "1"}, "items": [POOL]})
        elif path.endswith("/inferencepools/cerium"):
            self.send(handler, POOL)
        else:
            self.send(handler, {"kind": "Status", "status": "Failure", "reason": "NotFound",
                                "code": 404}, 404)

    def watch(self, handler, is_of_pods, since):
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        at = 0
        while not self.ends.is_set():
            with self.changed:
                if at == len(self.events):
                    self.changed.wait(1)
                new, at = self.events[at:], len(self.events)
                new = [p for p in new if int(p["metadata"]["resourceVersion"]) > since]
            for pod in new if is_of_pods else ():
                line = json.dumps({"type": "MODIFIED", "object": pod}).encode() + b"\n"
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                handler.wfile.flush()
