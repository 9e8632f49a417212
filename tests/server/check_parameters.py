"""check_parameters.py - every published parameter of every API is used, refused or named.

A parameter that is used has a type, and is refused by name if its type is wrong.  All
others are named in the answer's warnings, except those that docs/server.md lists as
exempt.  The lists come from the SDKs' types and llama.cpp's and Ollama's documents; if an SDK is
installed, its types are compared with them."""

import glob
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))

from harness import ROOT, Report, Server  # noqa: E402

TALK = [{"role": "user", "content": "x"}]
RESPONSES = """background background_options context_management conversation image include input
    instructions max_output_tokens max_tool_calls metadata model moderation parallel_tool_calls
    previous_response_id prompt prompt_cache_key prompt_cache_options prompt_cache_retention
    reasoning reasoning.effort reasoning.summary reasoning.generate_summary reasoning.context
    reasoning.mode safety_identifier service_tier store stream stream_options
    stream_options.include_obfuscation temperature text text.format text.verbosity tool_choice
    tools top_logprobs top_p truncation user access_programs"""
CHAT = """audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens
    max_tokens messages metadata modalities model moderation n parallel_tool_calls prediction
    presence_penalty prompt_cache_key prompt_cache_options prompt_cache_retention reasoning_effort
    response_format safety_identifier seed service_tier stop store stream stream_options
    stream_options.include_usage stream_options.include_obfuscation temperature tool_choice tools
    top_logprobs top_p user verbosity web_search_options"""
COMPLETIONS = """best_of echo frequency_penalty logit_bias logprobs max_tokens model n
    presence_penalty prompt seed stop stream stream_options stream_options.include_usage
    stream_options.include_obfuscation suffix temperature top_p user"""
MESSAGES = """cache_control container diagnostics inference_geo max_tokens messages metadata model
    output_config output_config.effort output_config.format service_tier speed stop_sequences
    stream system temperature thinking thinking.type thinking.budget_tokens thinking.display
    tool_choice tools top_k top_p user_profile_id workspace_id betas billing_policy compaction
    context_management fallback_credit_token fallbacks mcp_servers thread"""
OPTIONS = """embedding_only f16_kv frequency_penalty logits_all low_vram main_gpu mirostat
    mirostat_eta mirostat_tau num_batch num_ctx num_gpu num_keep num_predict num_thread numa
    penalize_newline presence_penalty repeat_last_n repeat_penalty seed stop temperature tfs_z
    top_k top_p typical_p use_mlock use_mmap vocab_only min_p""".split()
OLLAMA = " ".join("options." + one for one in OPTIONS) + " format keep_alive logprobs model " \
    "options stream think top_logprobs "
OLLAMA_CHAT = OLLAMA + "messages tools"
OLLAMA_GENERATE = OLLAMA + "context height images prompt raw steps suffix system template width"
LLAMA = """prompt temperature dynatemp_range dynatemp_exponent top_k top_p min_p n_predict n_indent
    n_keep n_cmpl n_cache_reuse stream stop typical_p repeat_penalty repeat_last_n presence_penalty
    frequency_penalty dry_multiplier dry_base dry_allowed_length dry_penalty_last_n
    dry_sequence_breakers xtc_probability xtc_threshold mirostat mirostat_tau mirostat_eta
    adaptive_target adaptive_decay grammar json_schema seed ignore_eos logit_bias n_probs min_keep
    t_max_predict_ms id_slot cache_prompt return_tokens samplers timings_per_token return_progress
    post_sampling_probs response_fields lora backend_sampling"""
# docs/server.md, "These are not named": they say nothing about the text.
SILENT = """user metadata safety_identifier client_metadata store prompt_cache_key
    prompt_cache_retention cache_prompt samplers reasoning.summary reasoning.generate_summary
    stream_options.include_obfuscation timings_per_token cache_control diagnostics
    context_management options.num_batch options.num_gpu options.main_gpu options.num_thread
    options.use_mmap options.use_mlock options.low_vram options.numa""".split()
APIS = {
    "Responses": ("/v1/responses", {"input": "x", "max_output_tokens": 1}, RESPONSES),
    "Chat": ("/v1/chat/completions", {"messages": TALK, "max_tokens": 1}, CHAT),
    "Completions": ("/v1/completions", {"prompt": "x", "max_tokens": 1}, COMPLETIONS),
    "Messages": ("/v1/messages", {"messages": TALK, "max_tokens": 1}, MESSAGES),
    "Ollama's chat": ("/api/chat", {"messages": TALK, "stream": False,
                                    "options": {"num_predict": 1}}, OLLAMA_CHAT),
    "Ollama's generate": ("/api/generate", {"prompt": "x", "stream": False,
                                            "options": {"num_predict": 1}}, OLLAMA_GENERATE),
    "llama.cpp's completion": ("/completion", {"prompt": "x", "n_predict": 1}, LLAMA),
}
WRONG = [{"no": ["such"]}, 7.25, "nonsense", [[1]]]


def put(body, name, value):
    body = json.loads(json.dumps(body))
    *way, last = name.split(".")
    at = body
    for key in way:
        at = at.setdefault(key, {})
    at[last] = value
    return body


def told(data, name):
    """Whether an error, or a warning, names the parameter."""
    last = name.split(".")[-1]
    body = json.loads(data)
    error = body.get("error")
    if isinstance(error, str):
        return last in error
    if error:
        return last in (error.get("param") or "") or last in error["message"]
    warnings = body.get("cerium", {}).get("warnings", [])
    return any(re.match(re.escape(name) + r"($|[.\[])", w["param"]) for w in warnings)


def check_api(report, server, title):
    path, base, names = APIS[title]
    for name in names.split():
        if name in SILENT:
            continue
        with report.check("%s: %s is used, refused or named" % (title, name), server):
            seen = []
            for value in WRONG:
                status, _, data = server.request("POST", path, put(base, name, value))
                assert status in (200, 400, 404), (value, status, data[:300])
                try:
                    good = told(data, name)
                except ValueError:  # a stream began
                    good = False
                seen.append((json.dumps(value), status, good))
            assert any(good for _, _, good in seen), seen


SDK = {
    "python": """
import typing
from openai.types.responses import response_create_params as r
from openai.types.chat import completion_create_params as c
from openai.types import completion_create_params as k
for name, m, t in (("Responses", r, "ResponseCreateParamsBase"),
                   ("Chat", c, "CompletionCreateParamsBase"),
                   ("Completions", k, "CompletionCreateParamsBase")):
    print(name, *getattr(m, t).__annotations__)
""",
    "python-messages": """
from anthropic.types import message_create_params as m
from anthropic.types.beta import message_create_params as b
print("Messages", *m.MessageCreateParamsBase.__annotations__,
      *b.MessageCreateParamsBase.__annotations__)
""",
    "python-others": """
from ollama import _types as t
print("Ollama's chat", *t.ChatRequest.model_fields)
print("Ollama's generate", *t.GenerateRequest.model_fields)
print("options", *t.Options.model_fields)
""",
}


def check_lists(report):
    for folder, script in SDK.items():
        found = glob.glob(os.path.join(ROOT, "build", "clients", folder, "bin", "python"))
        run = found and subprocess.run([found[0], "-c", script], capture_output=True, text=True,
                                       timeout=120)
        if not run or run.returncode:
            report.skip("the SDK's parameters in build/clients/" + folder, "it is not installed")
            continue
        for one in run.stdout.splitlines():
            name = next((n for n in APIS if one.startswith(n + " ")), "options")
            with report.check("no parameter of the SDK is missing in the list: " + name):
                have = OPTIONS if name == "options" else APIS[name][2].split()
                missing = set(one[len(name):].split()) - set(have)
                assert not missing, missing


def main():
    report = Report("parameters")
    check_lists(report)
    with Server() as server:
        for title in APIS:
            check_api(report, server, title)
    report.end()


if __name__ == "__main__":
    main()
