"""agents.py - opencode, aider and the CLIs of Continue and Cline, headless, with their
own tools."""

import json
import os
import tempfile

import clients_page
import harness
from harness import MODEL_ID, NODE_BIN, Report, Server, call, line

KEY = "sk-clients-0123456789"


def folder_of(server, name, files):
    folder = tempfile.mkdtemp(prefix=name + "-", dir=server.folder)
    for path, text in files.items():
        path = os.path.join(folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
    return folder


def home_env(home):
    """No settings of the user, no network beyond this machine."""
    return {"HOME": home, "XDG_CONFIG_HOME": home + "/.config", "XDG_DATA_HOME": home + "/.data",
            "XDG_CACHE_HOME": home + "/.cache", "XDG_STATE_HOME": home + "/.state",
            "CI": "1", "DO_NOT_TRACK": "1"}


# ---- opencode ----

def opencode_config(server, package):
    """The block of docs/clients.md, and settings for the test."""
    text = clients_page.sections()["opencode"][0][1].replace("http://127.0.0.1:8383", server.url)
    config = json.loads(text)
    provider = config["provider"]["cerium"]
    provider["npm"], provider["options"]["apiKey"] = package, KEY
    return {**config, "autoupdate": False, "share": "disabled",
            "permission": {"bash": "allow", "edit": "allow"}}


def opencode(server, home, prompt):
    work = os.path.join(home, "work")
    os.makedirs(work, exist_ok=True)
    env = {**home_env(home), "OPENCODE_CONFIG": home + "/opencode.json",
           "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1",
           "OPENCODE_DISABLE_LSP_DOWNLOAD": "1", "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1"}
    status, out, err = harness.run([os.path.join(NODE_BIN, "opencode"), "run", "--format", "json",
                                    "--model", "cerium/cerium", prompt],
                                   cwd=work, env=env, seconds=90)
    events = [json.loads(text) for text in out.splitlines() if text.startswith("{")]
    assert status == 0, "status %d: %s" % (status, (out + err)[-600:])
    return events, out + err


def check_opencode(report, package, route):
    script = [
        line("Hello from the replay.", last="say hello", has_tool="bash"),
        line(call("bash", command="echo tool-ran-$((6*7))", description="say it"),
             last="run the echo", has_tool="bash"),
        line("The tool said 42.", role="tool", last="tool-ran-42"),
        line("A title", repeat=True),  # a second request, without tools
    ]
    with Server(replay=script, context=32768, key=KEY) as server:
        home = folder_of(server, "opencode",
                         {"opencode.json": json.dumps(opencode_config(server, package))})
        with report.check("opencode over %s: a turn" % route, server):
            events, text = opencode(server, home, "say hello")
            assert "Hello from the replay." in text, text[-600:]
        with report.check("opencode over %s: a shell call" % route, server):
            events, text = opencode(server, home, "run the echo")
            assert "tool-ran-42" in text and "The tool said 42." in text, text[-600:]
        with report.check("opencode took that route", server):
            name = 'cerium_requests_total{route="%s",status="200"}' % route
            assert server.metric(name) >= 3, server.metric(name)


# ---- Continue ----

def continue_config(server):
    """The block of docs/clients.md."""
    text = clients_page.sections()["Continue"][0][1]
    text = text.replace("http://127.0.0.1:8383", server.url)
    return text.replace("apiKey: none", "apiKey: " + KEY)


def check_continue(report):
    script = [
        line("Hello from the replay.", last="say hello"),
        line(call("Bash", command="echo tool-ran-$((6*7))"), last="run the echo", has_tool="Bash"),
        line("The tool said 42.", role="tool", last="tool-ran-42"),
    ]
    with Server(replay=script, context=32768, key=KEY) as server:
        home = folder_of(server, "continue", {"config.yaml": continue_config(server)})
        env = {**home_env(home), "CONTINUE_CLI_ENABLE_TELEMETRY": "0",
               "CONTINUE_METRICS_ENABLED": "0", "CONTINUE_GLOBAL_DIR": home + "/.continue"}

        def ask(prompt):
            status, out, err = harness.run(
                [os.path.join(NODE_BIN, "node"), os.path.join(NODE_BIN, "cn"), "-p", "--auto",
                 "--config", home + "/config.yaml", prompt], cwd=home, env=env, seconds=90)
            assert status == 0, "status %d: %s" % (status, (out + err)[-600:])
            return out

        with report.check("continue: a turn", server):
            text = ask("say hello")
            assert "Hello from the replay." in text, text[-600:]
        with report.check("continue: a shell call", server):
            text = ask("run the echo")
            assert "The tool said 42." in text, text[-600:]


# ---- Cline ----

def check_cline(report):
    script = [
        line(call("run_commands", commands=["echo tool-ran-$((6*7))"]), last="run the echo",
             has_tool="run_commands"),
        line("The tool said 42.", role="tool", last="tool-ran-42"),
    ]
    with Server(replay=script, context=65536, key=KEY) as server:
        home = folder_of(server, "cline", {"work/README": "nothing"})
        cline = [os.path.join(NODE_BIN, "cline")]
        data = ["--data-dir", home + "/data"]
        # Its own requests to the Internet are refused at once.
        env = {**home_env(home), "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
        with report.check("cline: a shell call", server):
            status, out, err = harness.run(
                cline + ["auth", "openai-compatible", "-k", KEY, "-m", MODEL_ID,
                         "-b", server.url + "/v1"] + data, cwd=home, env=env)
            assert status == 0, (out + err)[-600:]
            status, out, err = harness.run(
                cline + ["--json", "-c", home + "/work"] + data +
                ["-P", "openai-compatible", "-m", MODEL_ID, "run the echo"],
                cwd=home, env=env, seconds=180)
            assert status == 0, (out + err)[-600:]
            assert "tool-ran-42" in out and "The tool said 42." in out, (out + err)[-600:]


# ---- aider ----

AIDER_EDIT = """greet.py
```python
<<<<<<< SEARCH
    return "hello"
=======
    return "hello, " + name
>>>>>>> REPLACE
```
"""


def check_aider(report):
    """The block of docs/clients.md; the model edits a file in aider's own form."""
    script = [line(AIDER_EDIT, last="greet by name"), line("Hello from the replay.")]
    words = clients_page.sections()["aider"][0][1].split()
    aider = words[words.index("aider"):]
    with Server(replay=script, context=32768, key=KEY) as server:
        home = folder_of(server, "aider", {"greet.py": 'def greet(name):\n    return "hello"\n'})
        env = {**home_env(home), "OPENAI_API_BASE": server.url + "/v1", "OPENAI_API_KEY": KEY,
               # Its own requests to the Internet are refused at once.
               "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1",
               "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        with report.check("aider: an edit of a file", server):
            status, out, err = harness.run(
                [os.path.join(harness.CLIENTS, "python-aider", "bin", "aider"), *aider[1:],
                 "--no-git", "--yes-always", "--no-check-update", "--analytics-disable",
                 "--no-show-model-warnings", "--no-gitignore", "--message", "greet by name",
                 "greet.py"], cwd=home, env=env, seconds=180)
            assert status == 0, (out + err)[-600:]
            with open(os.path.join(home, "greet.py")) as f:
                text = f.read()
            assert text == 'def greet(name):\n    return "hello, " + name\n', (text, out[-600:])


def main():
    report = Report("agents")
    if not report.missing("aider"):
        check_aider(report)
    if not report.missing("opencode"):
        check_opencode(report, "@ai-sdk/openai-compatible", "/v1/chat/completions")
        check_opencode(report, "@ai-sdk/openai", "/v1/responses")
    if not report.missing("continue"):
        check_continue(report)
    if not report.missing("cline"):
        check_cline(report)
    report.end()


main()
