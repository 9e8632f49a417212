"""clients_page.py - docs/clients.md against a server: each block is parsed, each address
exists on the server, and the request that its client sends there is answered.  The block of
the OpenAI SDK runs if the SDK is installed, those of llm, LiteLLM and qwen-code if they are;
opencode, Continue and Codex run with their blocks in agents.py and codex.py."""

import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from harness import CLIENTS, NODE_BIN, ROOT, Report, Server, line, run  # noqa: E402

PAGE = os.path.join(ROOT, "docs", "clients.md")
HOST = "127.0.0.1:8383"
CLIENTS_WANTED = ["Two models at once", "Codex", "opencode", "Continue", "Cline", "aider",
                  "qwen-code", "Zed", "llama.vim", "llama.vscode", "Claude Code", "LiteLLM",
                  "OpenAI SDKs", "llm"]
CHAT, INFILL = "/v1/chat/completions", "/infill"
# Paths that a client appends to its address.
ASKS = {"Codex": ["/v1/responses"], "Zed": [CHAT, "/v1/completions"], "llama.vim": [INFILL],
        "llama.vscode": [INFILL, CHAT], "Two models at once": [INFILL, CHAT, "/v1/completions"],
        "OpenAI SDKs": ["/v1/responses"]}
BODIES = {
    CHAT: {"model": "cerium", "messages": [{"role": "user", "content": "hello"}]},
    "/v1/responses": {"model": "cerium", "input": "hello"},
    "/v1/completions": {"model": "cerium", "prompt": "int main(", "max_tokens": 4},
    INFILL: {"input_prefix": "int main(", "input_suffix": "\n{\n}\n", "n_predict": 4},
}


def sections(path=PAGE):
    """{heading: [(language, text)]} of a page."""
    found, name, block = {}, None, None
    with open(path) as f:
        for text in f.read().split("\n"):
            if block is not None:
                if text == "```":
                    found[name].append((block[0], "\n".join(block[1:]) + "\n"))
                    block = None
                else:
                    block.append(text)
            elif text.startswith("```"):
                block = [text[3:]]
            elif text.startswith("## "):
                name = text[3:]
                found[name] = []
            found.setdefault(name, [])
    return found


def parse(language, text):
    """Fails if the client that reads the block would."""
    if language == "json":
        json.loads(text)
    elif language == "toml":
        import tomllib
        tomllib.loads(text)
    elif language == "sh":
        subprocess.run(["sh", "-n"], input=text, text=True, check=True)
    elif language == "python":
        compile(text, PAGE, "exec")
    elif language == "yaml":
        assert "\t" not in text and re.search(r"^[- ]*\w+: ", text, re.M), text
    else:
        assert language == "vim", language


def check_addresses(text):
    """Every address on the page is the default of `cerium serve`."""
    for address in re.findall(r"http://[^\s'\"]+", text):
        assert address.startswith(("http://" + HOST, "http://127.0.0.1:4000")), address


def sdk_block(server, text):
    python = os.path.join(CLIENTS, "python", "bin", "python3")
    text = text.replace(HOST, "127.0.0.1:%d" % server.port)
    done = subprocess.run([python, "-c", text], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "Rust sleeps" in done.stdout, done.stdout + done.stderr


OTHERS = os.path.join(CLIENTS, "python-others", "bin")
COMPLETE = """import yaml, litellm
how = yaml.safe_load(open("litellm.yaml"))["model_list"][0]["litellm_params"]
asked = [{"role": "user", "content": "hello"}]
print(litellm.completion(messages=asked, **how).choices[0].message.content)
"""


def said(command, home):
    env = {**os.environ, "HOME": home, "LLM_USER_PATH": home, "CI": "1", "DO_NOT_TRACK": "1",
           "LITELLM_LOCAL_MODEL_COST_MAP": "True",
           "PATH": OTHERS + os.pathsep + os.environ["PATH"]}
    status, out, err = run(command, cwd=home, env=env, seconds=120)
    assert status == 0 and "Rust sleeps" in out, (status, out[-300:], err[-500:])


def check_others(report, server, page):
    """Clients that read their block from a file or from the environment."""
    home = os.path.join(server.folder, "others")
    os.makedirs(home)

    def block(name, i=0):
        return page[name][i][1].replace(HOST, "127.0.0.1:%d" % server.port)

    if os.path.exists(os.path.join(OTHERS, "llm")) and not report.missing("llm"):
        for name, path in (("llm", "extra-openai-models.yaml"), ("LiteLLM", "litellm.yaml")):
            with open(os.path.join(home, path), "w") as f:
                f.write(block(name))
        with report.check("llm runs with its block", server):
            said(["sh", "-ec", block("llm", 1)], home)
        with report.check("LiteLLM runs with its block", server):
            said([os.path.join(OTHERS, "python3"), "-c", COMPLETE], home)
    if os.path.exists(os.path.join(NODE_BIN, "qwen")) and not report.missing("qwen-code"):
        with report.check("qwen-code runs with its block", server):
            asked = block("qwen-code").replace("\nqwen\n", "\nqwen -p 'say hello'\n")
            said(["sh", "-ec", asked], home)


def main():
    report = Report("clients' page")
    page = sections()
    page = sections()
    with report.check("the page has a block for each client"):
        missing = [name for name in CLIENTS_WANTED if not page.get(name)]
        assert not missing, missing
    with report.check("README's lines for Codex are those of the page"):
        with open(os.path.join(ROOT, "README.md")) as f:
            assert page["Codex"][0][1] in f.read()
    with Server(replay=[line("Rust sleeps.", repeat=True)], context=32768) as server:
        for name in CLIENTS_WANTED:
            for language, text in page.get(name, []):
                with report.check("%s: its %s block" % (name, language), server):
                    parse(language, text)
                    check_addresses(text)
            for path in ASKS.get(name, [CHAT]):
                with report.check("%s: %s answers" % (name, path), server):
                    server.json("POST", path, BODIES[path])
        if not report.missing("openai-python"):
            if os.path.exists(os.path.join(CLIENTS, "python", "bin", "python3")):
                with report.check("the block of the OpenAI SDK runs", server):
                    sdk_block(server, page["OpenAI SDKs"][0][1])
        check_others(report, server, page)
    report.end()


if __name__ == "__main__":
    main()
