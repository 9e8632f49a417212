"""Write a GGUF file the way llama.cpp's converter does: keys, vocabulary, tensors."""
import math

import gguf
import numpy as np
from gguf import LlamaFileType as F

import families
import hybrids
import latents
import layered
import scans
import turned

# ---- vocabulary: 256 bytes, a few merges, a few control tokens ----

MERGES = ["i n", "t h", "th e", "r e", "\u0120 t", "o n", "e r", "\u0120t he", "i f", "f o"]
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|fim_prefix|>", "<|fim_middle|>",
           "<|fim_suffix|>"]
N_VOCAB = 256 + len(MERGES) + len(CONTROL)


def byte_alphabet():
    """GPT-2's printable stand-in for each byte; token b is byte b."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    extra = iter(range(256, 512))
    return [chr(b) if b in printable else chr(next(extra)) for b in range(256)]


def add_vocabulary(writer, n_vocab):
    tokens = byte_alphabet() + [m.replace(" ", "") for m in MERGES] + CONTROL
    types = [gguf.TokenType.NORMAL] * (256 + len(MERGES)) + [gguf.TokenType.CONTROL] * len(CONTROL)
    while len(tokens) < n_vocab:  # as the converter pads
        tokens.append(f"[PAD{len(tokens)}]")
        types.append(gguf.TokenType.UNUSED)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(MERGES)
    first = 256 + len(MERGES)
    writer.add_eos_token_id(first + 2)
    writer.add_bos_token_id(first)
    writer.add_pad_token_id(first)
    writer.add_add_bos_token(False)


# ---- GGUF ----

def rope_factors(config):
    """llama3 scaling as llama.cpp's converter writes it: the divisor of each frequency."""
    rope = config.rope_parameters
    dim = config.head_dim
    freqs = 1.0 / rope["rope_theta"] ** (np.arange(0, dim, 2, dtype=np.float32) / dim)
    low = rope["original_max_position_embeddings"] / rope["low_freq_factor"]
    high = rope["original_max_position_embeddings"] / rope["high_freq_factor"]
    out = []
    for freq in freqs:
        wave = 2 * math.pi / freq
        smooth = ((rope["original_max_position_embeddings"] / wave - rope["low_freq_factor"])
                  / (rope["high_freq_factor"] - rope["low_freq_factor"]))
        out.append(1.0 if wave < high else rope["factor"] if wave > low
                   else 1.0 / ((1.0 - smooth) / rope["factor"] + smooth))
    return np.array(out, np.float32)


def add_keys(w, arch, c, fixture):
    w.add_name(fixture["name"])
    w.add_file_type(fixture["file_type"])
    if fixture["file_type"] not in (F.ALL_F32, F.MOSTLY_F16, F.MOSTLY_BF16):
        w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    w.add_block_count(c.num_hidden_layers + fixture.get("ahead", 0))
    if fixture.get("ahead"):
        w.add_nextn_predict_layers(fixture["ahead"])
    if arch in hybrids.ARCHS:
        hybrids.add_keys(w, arch, c, fixture.get("listed"))
    w.add_context_length(c.max_position_embeddings)
    w.add_embedding_length(c.hidden_size)
    if arch in scans.NEMOTRON:
        scans.nemotron_keys(w, arch, c, fixture.get("ahead", 0))
        return
    if hasattr(c, "intermediate_size"):
        w.add_feed_forward_length(layered.widths(c))
    by_layer = [1] * c.num_hidden_layers if fixture.get("arrays") else 1  # as some converters do
    if arch in layered.ARCHS:
        layered.head_keys(w, c, arch)
    elif arch in latents.ARCHS:
        latents.head_keys(w, c, fixture.get("old"))
    elif arch in scans.ARCHS:
        scans.head_keys(w, c)
    else:
        w.add_head_count(np.multiply(by_layer, c.num_attention_heads).tolist())
        w.add_head_count_kv(np.multiply(by_layer, c.num_key_value_heads).tolist())
    if fixture.get("head_dim"):  # the converter writes these when the config names head_dim
        w.add_key_length(c.head_dim)
        w.add_value_length(c.head_dim)
    if arch == "llama":
        w.add_vocab_size(c.vocab_size)
        w.add_rope_dimension_count(c.head_dim)
    rope = c.rope_parameters.get("full_attention", c.rope_parameters)
    w.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "linear":
        w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        w.add_rope_scaling_factor(rope["factor"])
    elif rope["rope_type"] == "yarn":
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(rope["factor"])
        w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        if "beta_fast" in rope:
            w.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
            w.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
    if arch == "starcoder2":
        w.add_layer_norm_eps(c.norm_epsilon)
    else:
        w.add_layer_norm_rms_eps(c.rms_norm_eps)
    if arch in ("gpt-oss", "starcoder2"):
        w.add_sliding_window(c.sliding_window)
    families.add_keys(w, arch, c)
    if arch == "qwen3moe":
        w.add_expert_count(c.num_experts)
        w.add_expert_used_count(c.num_experts_per_tok)
        w.add_expert_feed_forward_length(c.moe_intermediate_size)
    if arch == "gpt-oss":
        w.add_expert_count(c.num_local_experts)
        w.add_expert_used_count(c.num_experts_per_tok)
        w.add_expert_feed_forward_length(c.intermediate_size)


def write_gguf(path, arch, config, fixture, data, turn=None):
    writer = gguf.GGUFWriter(path, arch)
    if turn:
        turn.add_keys(writer, [name for name, _, _ in data if turned.is_turned(name)])
    add_keys(writer, arch, config, fixture)
    add_vocabulary(writer, config.vocab_size)
    if arch not in scans.NEMOTRON and config.rope_parameters.get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", rope_factors(config))
    if arch == "gemma4":
        writer.add_tensor("rope_freqs.weight", layered.rope_divisors(config))
    for name, array, qtype in data:
        writer.add_tensor(name, array, raw_dtype=qtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
