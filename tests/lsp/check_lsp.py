"""check_lsp.py - `cerium lsp` over its pipes: python3 check_lsp.py ./cerium [test_NAME...]

Every message that the server writes is read by the types of lsprotocol, where that is installed."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
import check_lsp_candidates  # noqa: E402
import check_lsp_completions  # noqa: E402
import check_lsp_edits  # noqa: E402
import check_lsp_findings  # noqa: E402
import check_lsp_setup  # noqa: E402
import kit  # noqa: E402
from kit import check, seen  # noqa: E402

PARTS = (check_lsp_completions, check_lsp_candidates, check_lsp_findings, check_lsp_edits,
         check_lsp_setup)


# ---- what is sent is what the protocol says ----

def test_types():
    try:
        from lsprotocol import converters, types
    except ImportError:
        return
    converter = converters.get_converter()
    responses = {
        "initialize": types.InitializeResponse, "shutdown": types.ShutdownResponse,
        "textDocument/inlineCompletion": types.InlineCompletionResponse,
        "textDocument/diagnostic": types.DocumentDiagnosticResponse,
        "textDocument/codeAction": types.CodeActionResponse,
        "workspace/executeCommand": types.ExecuteCommandResponse}
    others = {
        "textDocument/publishDiagnostics": types.PublishDiagnosticsNotification,
        "window/showMessage": types.ShowMessageNotification,
        "workspace/configuration": types.ConfigurationRequest,
        "client/registerCapability": types.RegistrationRequest,
        "workspace/diagnostic/refresh": types.DiagnosticRefreshRequest,
        "workspace/applyEdit": types.ApplyWorkspaceEditRequest,
        "window/workDoneProgress/create": types.WorkDoneProgressCreateRequest,
        "$/progress": types.ProgressNotification,
        "window/showDocument": types.ShowDocumentRequest}
    n, unknown, faults = 0, set(), []
    for c in seen:
        for m in c.log:
            kind = others.get(m.get("method")) if "method" in m else responses.get(
                c.asked.get(json.dumps(m["id"])))
            if "method" in m and kind is None:
                unknown.add(m["method"])
            if kind is None:
                continue
            try:
                if "error" in m:
                    m = {k: v for k, v in m.items() if k != "error"}
                    kind = types.ResponseErrorMessage if hasattr(
                        types, "ResponseErrorMessage") else None
                if kind:
                    converter.structure(m, kind)
                    n += 1
            except Exception as e:  # whatever a type refuses is a fault of ours
                faults.append((type(e).__name__, str(e)[:200], json.dumps(m)[:300]))
    check("every message is of the protocol's types", n > 100 and not faults, (n, faults[:3]))
    check("no method that nobody knows", unknown <= {"didChangeStatus"}, unknown)


def main():
    only = sys.argv[2:]
    tests = [t for part in PARTS for t in vars(part).items() if t[0].startswith("test_")]
    for name, test in tests:
        if not only or name in only:
            try:
                test()
            except Exception as e:  # the others are run, too
                check(name, False, repr(e))
    if not only:
        test_types()
    for c in seen:
        if c.process.poll() is None:
            c.close()
    print(f"lsp: {kit.passed} passed, {kit.failed} failed")
    return kit.failed != 0


sys.exit(main())
