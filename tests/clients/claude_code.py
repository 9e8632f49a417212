"""claude_code.py - Claude Code, headless, against `cerium serve --replay`: a text, a call of Bash
and its result, and a second turn that reads new tokens only."""

import json
import os
import shutil
import sys
import tempfile

from harness import CLIENTS, Report, Server, call, line, run

PROGRAM = os.path.join(CLIENTS, "node", "node_modules", ".bin", "claude")
SCRIPT = [
    line("It was withheld.", repeat=True, role="tool", last="could not be parsed as JSON"),
    line("The shell said it.", repeat=True, role="tool"),
    line("I run it.\n" + call("Bash", command="echo from-the-shell"), repeat=True,
         last="run the echo", has_tool="Bash"),
    line("Hello there.", repeat=True, last="say hello"),
    line("Then in the safe form.", repeat=True, last="do it safely"),
]
WEAK = "    os.system('ls -l ' + path)\n"
STUCK = "    class Shown(exec(path)):\n        pass\n"  # nothing can replace it


def stubborn(weak, last):
    """A model that repeats a weak line each time it is retracted."""
    content = "import os\n\n\ndef show(path):\n" + weak
    entry = line("I write it.\n" + call("Write", file_path="show.py", content=content),
                 repeat=True, last=last, has_tool="Write")
    entry["corrected"] = [json.dumps(weak)[1:-1] + '"}}\n</tool_call>'] * 8
    return entry


def run_claude(server, folder, prompt, *more):
    """Claude Code's output."""
    env = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_AUTH_TOKEN": "none",
           "ANTHROPIC_MODEL": "cerium", "ANTHROPIC_DEFAULT_HAIKU_MODEL": "cerium",
           "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
           "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "65536", "HOME": folder, "IS_SANDBOX": "1"}
    command = [PROGRAM, "-p", prompt, "--allowedTools", "Bash", "Write", *more]
    status, out, err = run(command, cwd=folder, env=env, seconds=120)
    assert status == 0, (status, out[-600:], err[-600:])
    return out


def ask(server, folder, prompt, *more):
    """Its final report, as an object."""
    return json.loads(run_claude(server, folder, prompt, "--output-format", "json", *more))


def refused(server):
    """Requests that were answered with an error."""
    _, _, data = server.request("GET", "/metrics")
    return [sample for sample in data.decode().splitlines()
            if "/v1/messages" in sample and 'code="4' in sample and not sample.endswith(" 0")]


def main():
    report = Report("claude_code")
    if report.missing("claude-code") or not os.path.exists(PROGRAM):
        if not os.path.exists(PROGRAM):
            report.skip("claude-code", "it is not installed")
        report.end()
    folder = tempfile.mkdtemp(prefix="cerium-claude-")
    try:
        script = [stubborn(STUCK, "write it anyhow"), stubborn(WEAK, "write it well"), *SCRIPT]
        with Server(script, context=65536) as server:
            with report.check("Claude Code: a text", server):
                said = ask(server, folder, "say hello")
                assert said["result"] == "Hello there." and not said["is_error"], said
            with report.check("Claude Code: a call of Bash and its result", server):
                said = ask(server, folder, "run the echo")
                assert said["result"] == "The shell said it." and said["num_turns"] == 2, said
            with report.check("Claude Code: the second turn reads new tokens only", server):
                used = said["usage"]
                read, new = used["cache_read_input_tokens"], used["input_tokens"]
                assert read >= 0.95 * (read + new) or read > new, used
            with report.check("Claude Code: withheld code ends in an explanation", server):
                before = server.metric("cerium_replayed_total")
                # It runs a call of which it has seen the beginning, and tells the model that this
                # failed.
                out = run_claude(server, folder, "write it anyhow", "--output-format",
                                 "stream-json", "--verbose")
                last = json.loads(out.strip().splitlines()[-1])
                assert not last["is_error"] and last["result"] == "It was withheld.", last
                assert "Line 5 of python was withheld" in out and "CWE-95" in out, out
                assert "Safe form" in out and "The call of Write" in out, out
                assert server.metric("cerium_replayed_total") - before <= 2
                assert not os.path.exists(os.path.join(folder, "show.py"))
            with report.check("Claude Code: a weak line of a file is replaced", server):
                said = ask(server, folder, "write it well")
                assert not said["is_error"], said
                with open(os.path.join(folder, "show.py")) as f:
                    written = f.read()
                assert "os.system" not in written and "subprocess" in written, written
                compile(written, "show.py", "exec")
            with report.check("Claude Code: and it continues after that", server):
                said = ask(server, folder, "do it safely", "--continue")
                assert said["result"] == "Then in the safe form.", said
            with report.check("Claude Code: no request is refused", server):
                assert not refused(server), refused(server)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report.end()


if __name__ == "__main__":
    sys.exit(main())
