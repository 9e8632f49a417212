"""check_pull.py - models that the page offers: who may fetch them, the progress of a fetch, that
it can be canceled, and that the result is served."""

import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))

import harness  # noqa: E402
from check_models import TALK, make  # noqa: E402
from harness import Report, Server, wait_for  # noqa: E402
from mirror import Mirror, program_with_list  # noqa: E402
from wire import Wire, request  # noqa: E402


def place(folder, mirror, files):
    """The program with a list of models at the mirror; models go into a folder of their own."""
    size = os.path.getsize(files["a.gguf"])
    os.environ["CERIUM_RULES"] = os.path.join(harness.ROOT, "rules")
    os.environ["CERIUM_MODELS"] = os.path.join(folder, "pulled")
    return program_with_list(os.environ["CERIUM"], folder, [
        ("quick", mirror.url + "/a.gguf", "-", size, size),
        ("slow", mirror.url + "/slow/b.gguf", "-", os.path.getsize(files["b.gguf"]), 2 * size),
        ("wrong", mirror.url + "/a.gguf", "0" * 64, size, size),
        ("line-fim", mirror.url + "/a.gguf", "-", size, size),
        ("huge", mirror.url + "/a.gguf", "-", 1 << 50, 1 << 50),
        ("unsized", mirror.url + "/a.gguf", "-"),
    ])


def state(server, **more):
    return server.json("GET", "/models/pull", **more)


def pull(server, name, want=202, **more):
    return server.json("POST", "/models/pull", {"model": name}, want=want, **more)


def ended(server):
    wait_for(lambda: state(server)["pull"]["state"] != "running", 30)
    return state(server)["pull"]


def check_offers(report, server, mirror):
    with report.check("the offered models, with their requirements", server):
        found = state(server)
        offers = {one["name"]: one for one in found["data"]}
        assert found["allowed"] and found["pull"] is None and "reason" in found
        assert set(offers) == {"quick", "slow", "wrong", "line-fim", "huge"}, offers
        assert offers["quick"]["chats"] and not offers["line-fim"]["chats"]
        assert offers["quick"]["fits"] and not offers["huge"]["fits"]
        assert not offers["quick"]["is_here"] and not offers["quick"]["is_served"]
        assert found["memory_bytes_max"] > 1 << 20
    with report.check("only names from the list, and well-formed ones", server):
        for name in ("nobody", mirror.url + "/a.gguf", "../a", "cerium-line"):
            assert pull(server, name, want=404)["error"]["code"] == "model_not_found", name
        for body in ({}, {"model": 7}, {"model": ""}, {"model": "x" * 200}):
            assert server.json("POST", "/models/pull", body, want=400)["error"]["param"] == "model"
        assert server.json("DELETE", "/models/pull")["pull"] is None
        assert not mirror.asked, mirror.asked
    with report.check("no other web page may fetch", server):
        for method, body in (("POST", {"model": "quick"}), ("DELETE", None), ("GET", None)):
            status, _, _ = server.request(method, "/models/pull", body,
                                          {"Origin": "https://example.org"})
            assert status == 403, status
        assert not mirror.asked


def check_fetch(report, server, mirror, folder):
    with report.check("unexpected bytes are reported, and not served", server):
        pull(server, "wrong")
        how = ended(server)
        assert how["state"] == "failed" and "SHA-256" in how["reason"], how
        assert len(server.json("GET", "/v1/models")["data"]) == 1
    with report.check("it can be canceled, and received bytes are kept", server):
        pull(server, "slow")
        mirror.half.wait(30)
        wait_for(lambda: state(server)["pull"]["done_bytes"] > 0, 30)
        now = state(server)["pull"]
        assert now["state"] == "running" and now["model"] == "slow", now
        assert 0 < now["done_bytes"] < now["total_bytes"], now
        error = pull(server, "quick", want=409)["error"]
        assert error["code"] == "pull_runs" and "slow" in error["message"], error
        assert pull(server, "slow")["pull"]["state"] == "running"  # joined
        server.json("DELETE", "/models/pull")
        assert ended(server)["state"] == "canceled"
        assert os.path.getsize(os.path.join(folder, "pulled", "slow.gguf.part")) > 0
    with report.check("a second try resumes; then it is served and talks, and the other completes",
                      server):
        mirror.go()
        pull(server, "slow")
        assert ended(server)["state"] == "done"
        assert mirror.asked.count("/slow/b.gguf") == 2
        listed = [m["id"] for m in server.json("GET", "/v1/models")["data"]]
        assert listed == ["cerium-line", "slow"], listed
        body = {"messages": TALK, "max_tokens": 2}
        assert server.json("POST", "/v1/chat/completions", body)["model"] == "slow"
        body = {"prompt": "def f(x):", "max_tokens": 2}
        assert server.json("POST", "/v1/completions", body)["model"] == "cerium-line"
        body = {"model": "any-name", "messages": TALK, "max_tokens": 2}
        assert server.json("POST", "/v1/chat/completions", body)["model"] == "slow"
        offer = next(one for one in state(server)["data"] if one["name"] == "slow")
        assert offer["is_here"] and offer["is_served"], offer
        pull(server, "slow")  # it is there: nothing is fetched
        assert ended(server)["state"] == "done" and mirror.asked.count("/slow/b.gguf") == 2
    with report.check("Ollama's pull reports progress", server):
        status, headers, data = server.request("POST", "/api/pull", {"model": "quick:latest"})
        lines = [json.loads(one) for one in data.decode().splitlines()]
        assert status == 200 and "ndjson" in headers["Content-Type"], (status, data)
        assert lines[0] == {"status": "pulling manifest"}, lines
        assert lines[-1] == {"status": "success"}, lines
        for body in ({"model": "quick", "stream": False}, {"name": "slow", "stream": False}):
            assert server.json("POST", "/api/pull", body) == {"status": "success"}
        assert "none of the models" in server.json("POST", "/api/pull", {"model": "x"},
                                                   want=404)["error"]
        lines = server.request("POST", "/api/pull", {"model": "wrong"})[2].decode().splitlines()
        assert "SHA-256" in json.loads(lines[-1])["error"], lines


def delete(server, body, want=200):
    status, _, data = server.request("DELETE", "/api/delete", body)
    assert status == want, (body, status, data)
    return json.loads(data)["error"] if data else ""


def check_delete(report, server, mirror, folder):
    def here():
        return sorted(os.listdir(os.path.join(folder, "pulled")))

    with report.check("only fetched models may be deleted, and none in use", server):
        assert "first model stays" in delete(server, {"model": "cerium-line"}, 403)
        assert "not found" in delete(server, {"model": "nobody"}, 404)
        assert delete(server, {}, 400) and delete(server, {"model": 7}, 400)
    with report.check("a model with running answers", server):
        # Its reader reads nothing, so the answer cannot end before the request to delete.
        body = {"model": "slow", "messages": TALK, "max_tokens": 1500, "ignore_eos": True,
                "stream": True, "logprobs": True, "top_logprobs": 20}
        reader = Wire(server.port, receive=4096)
        reader.send(request("POST", "/v1/chat/completions", body))
        reader.until(b"data: ")
        assert "answers of it run" in delete(server, {"model": "slow"}, 409)
        reader.until(b"data: [DONE]")
        reader.socket.close()
        assert "slow.gguf" in here()
    with report.check("a file elsewhere, and a symbolic link in the folder"):
        elsewhere = os.path.join(folder, "b.gguf")
        shutil.copy(os.path.join(folder, "pulled", "slow.gguf"), elsewhere)
        link = os.path.join(folder, "pulled", "link.gguf")
        os.symlink(elsewhere, link)
        with Server(args=["far=" + elsewhere, "linked=" + link]) as other:
            for name in ("far", "linked"):
                error = delete(other, {"model": name}, 403)
                assert "folder of models" in error, error
        os.remove(link)
        assert os.path.exists(elsewhere)
    with report.check("a model that is loaded: it is gone for all, with its file", server):
        server.json("POST", "/v1/chat/completions", {"model": "slow", "messages": TALK,
                                                      "max_tokens": 2})
        assert delete(server, {"model": "slow:latest"}) == ""
        assert "slow.gguf" not in here(), here()
        listed = [m["id"] for m in server.json("GET", "/v1/models")["data"]]
        assert "slow" not in listed and "quick" in listed, listed
        assert "slow" not in [m["name"] for m in server.json("GET", "/api/tags")["models"]]
        assert delete(server, {"model": "slow"}, 404)
        assert server.json("POST", "/api/show", {"model": "slow"}, want=404)
    with report.check("its disk space is free again", server):
        def mapped():
            with open("/proc/%d/maps" % server.process.pid) as f:
                return "slow.gguf" in f.read()

        wait_for(lambda: not mapped(), 30)
    with report.check("it can be fetched again, and is served", server):
        pull(server, "slow")
        assert ended(server)["state"] == "done"
        body = {"model": "slow", "messages": TALK, "max_tokens": 2}
        assert server.json("POST", "/v1/chat/completions", body)["model"] == "slow"


def check_leaving(report, server, mirror):
    with report.check("a follower that leaves, and the end of the server", server):
        mirror.gate.clear()
        mirror.half.clear()
        body = json.dumps({"model": "slow"})
        with socket.create_connection(("127.0.0.1", server.port)) as s:
            s.sendall(("POST /api/pull HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s"
                       % (len(body), body)).encode())
            data = b""
            while b"pulling manifest" not in data:
                data += s.recv(4096)
            mirror.half.wait(30)
        assert state(server)["pull"]["state"] == "running"
        assert server.stop(signal.SIGTERM, seconds=30) == 0


def check_rights(report):
    with Server(args=["--pull", "off"]) as server:
        with report.check("--pull off", server):
            assert not state(server)["allowed"] and "--pull off" in state(server)["reason"]
            assert pull(server, "quick", want=403)["error"]["code"] == "pull_not_allowed"
            assert server.json("DELETE", "/models/pull", want=403)
            assert "--pull off" in server.json("POST", "/api/pull", {"model": "quick"},
                                               want=403)["error"]
    for args, allowed in ((["--host", "0.0.0.0"], False), (["--host", "0.0.0.0", "--pull", "on"],
                                                           True)):
        with Server(args=args, key="secret") as server:
            with report.check("beyond loopback: %s" % " ".join(args), server):
                status, _, _ = server.request("POST", "/models/pull", {"model": "quick"},
                                              {"Authorization": "Bearer wrong"})
                assert status == 401, status
                assert state(server)["allowed"] == allowed
                pull(server, "nobody", want=404 if allowed else 403)


def main():
    report = Report("pull")
    files = {"a.gguf": make("test-qwen3", "test-qwen3", "--context", "2048"),
             "b.gguf": make("test-llama", "test-llama", "--context", "2048")}
    with tempfile.TemporaryDirectory() as folder:
        mirror = Mirror(files)
        harness.CERIUM = place(folder, mirror, files)
        with Server() as server:
            check_offers(report, server, mirror)
            check_fetch(report, server, mirror, folder)
            check_delete(report, server, mirror, folder)
        os.remove(os.path.join(folder, "pulled", "slow.gguf"))
        with Server() as server:
            check_leaving(report, server, mirror)
        check_rights(report)
        mirror.close()
    report.end()


if __name__ == "__main__":
    main()
