"""balancers.py - the balancers of examples/deploy, started unchanged."""

import contextlib
import csv
import json
import os
import re
import signal
import socket
import subprocess
import urllib.request

from fake_kubernetes import Kubernetes
from harness import ROOT, wait_for
from network import HOSTS

DEPLOY = os.path.join(ROOT, "examples", "deploy")


class Balancer:
    """A program with a file of examples/deploy; `in_turn` is the same without the hash."""

    port = 8080

    def __init__(self, folder):
        self.folder, self.process = folder, None
        self.start(os.path.join(DEPLOY, self.recipe))

    def start(self, path):
        self.log = open(os.path.join(self.folder, self.name + ".log"), "ab")
        self.process = subprocess.Popen(self.command(path), stdout=self.log, stderr=self.log)

        def listens():
            if self.process.poll() is not None:
                with open(self.log.name, errors="replace") as f:
                    raise AssertionError("%s ended: %s" % (self.name, f.read()))
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                return True
        wait_for(listens)

    def stop(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()

    @contextlib.contextmanager
    def in_turn(self):
        with open(os.path.join(DEPLOY, self.recipe)) as f:
            text = self.without_hash(f.read())
        path = os.path.join(self.folder, "in-turn-" + self.recipe)
        with open(path, "w") as f:
            f.write(text)
        self.stop()
        self.start(path)
        for name in ("cerium-1", "cerium-2", "cerium-3"):
            self.wait(name)
        yield
        self.stop()
        self.start(os.path.join(DEPLOY, self.recipe))
        for name in ("cerium-1", "cerium-2", "cerium-3"):
            self.wait(name)

    def wait(self, name):
        wait_for(lambda: self.is_up(name))

    def wait_gone(self, name):
        wait_for(lambda: not self.is_up(name))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def get(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


class HAProxy(Balancer):
    name, recipe = "HAProxy", "haproxy.cfg"

    def command(self, path):
        return ["haproxy", "-db", "-f", path]

    def without_hash(self, text):
        assert "balance hash var(txn.session)" in text
        return re.sub(r"balance hash.*\n\s*hash-type.*", "balance roundrobin", text)

    def is_up(self, name):
        with contextlib.suppress(OSError):
            for row in csv.reader(get("http://127.0.0.1:8404/;csv").splitlines()):
                if row[:2] == ["cerium", name]:
                    return row[17].startswith("UP") and "(" not in row[17]
        return False


class Envoy(Balancer):
    name, recipe = "Envoy", "envoy.yaml"

    def command(self, path):
        return [os.path.join(ROOT, "build", "cluster", "envoy"), "-c", path, "--log-level", "warn",
                "--concurrency", "1", "--disable-hot-restart"]

    def without_hash(self, text):
        assert "lb_policy: RING_HASH" in text
        return text.replace("lb_policy: RING_HASH", "lb_policy: ROUND_ROBIN")

    def is_up(self, name):
        with contextlib.suppress(OSError):
            for line in get("http://127.0.0.1:9901/clusters").splitlines():
                if line.startswith("cerium::%s:8383::health_flags::" % HOSTS[name]):
                    return line.endswith("::healthy")
        return False


class Picker(Envoy):
    """Envoy, the endpoint picker, and its source of pods."""

    name, recipe = "the picker", "envoy-picker.yaml"

    def __init__(self, folder):
        self.kubernetes = Kubernetes(HOSTS)
        config = os.path.join(folder, "kubeconfig")
        with open(config, "w") as f:
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "c",
                       "clusters": [{"name": "c", "cluster": {
                           "server": "http://127.0.0.1:%d" % self.kubernetes.port}}],
                       "users": [{"name": "u", "user": {}}],
                       "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}, f)
        self.picker_log = open(os.path.join(folder, "picker.log"), "ab")
        self.picker = subprocess.Popen([
            os.path.join(ROOT, "build", "cluster", "epp"), "--pool-name", "cerium",
            "--pool-namespace", "default", "--config-file", os.path.join(DEPLOY, "picker.yaml"),
            "--model-server-metrics-port", "9383", "--secure-serving=false",
            "--metrics-endpoint-auth=false", "--tracing=false", "--enable-pprof=false"],
            env={**os.environ, "KUBECONFIG": config}, stdout=self.picker_log,
            stderr=self.picker_log)
        wait_for(lambda: self.n_ready() == 3)
        super().__init__(folder)

    def metric(self, name):
        with contextlib.suppress(OSError):
            for line in get("http://127.0.0.1:9090/metrics").splitlines():
                if line.startswith(name + "{"):
                    return float(line.split()[-1])
        if self.picker.poll() is not None:
            with open(self.picker_log.name, errors="replace") as f:
                raise AssertionError("the picker ended: " + f.read()[-1500:])
        return None

    def n_ready(self):
        return self.metric("inference_pool_ready_pods")

    def without_hash(self, text):
        with open(os.path.join(DEPLOY, Envoy.recipe)) as f:
            return super().without_hash(f.read())

    def knows(self):
        """The number of its pods shows whether it knows the last change."""
        return self.n_ready() == sum(self.kubernetes.ready.values())

    def is_up(self, name):
        return self.kubernetes.ready[name] and self.knows() and super().is_up(name)

    def wait_gone(self, name):
        envoy = super()
        wait_for(lambda: not self.kubernetes.ready[name] and self.knows() and
                 not envoy.is_up(name))

    def __exit__(self, *_):
        self.stop()
        self.picker.kill()
        self.picker.wait()
        self.picker_log.close()
        self.kubernetes.close()


KINDS = {"haproxy": HAProxy, "envoy": Envoy, "picker": Picker}
