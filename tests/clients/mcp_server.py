"""mcp_server.py - a small MCP server over its standard input and output, for Codex.

It has one tool, look_up, which knows one metal."""

import json
import sys

TOOL = {"name": "look_up", "description": "Looks a metal up.", "inputSchema": {
    "type": "object", "properties": {"metal": {"type": "string"}}, "required": ["metal"]}}


def result_of(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "metals", "version": "1"}}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        known = params["arguments"] == {"metal": "cerium"} and params["name"] == TOOL["name"]
        text = "it melts at 795 degrees" if known else "not known: %s" % json.dumps(params)
        return {"content": [{"type": "text", "text": text}], "isError": not known}
    return {}


for text in sys.stdin:
    message = json.loads(text)
    if "id" in message:  # the others are notifications
        result = result_of(message["method"], message.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
