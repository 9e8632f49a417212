#!/usr/bin/env python3
"""A model of a real shape (Qwen3.5, Q4_0) that counts, with an MTP head of a planted accuracy.

    python3 bench/planted.py 2b OUT.gguf --wrong 0.2
    make build/release/bench_drafted
    build/release/bench_drafted -m OUT.gguf -d mtp -n 256 -w layers.txt

Blocks have random weights and add nothing: their last matrices are zeros, in as many bytes.  So the
next token depends on the output alone, which gives t + 1000 after t, and nothing repeats for
thousands of tokens.  It stays among the first --within tokens of the vocabulary, as 95 to 99 % of
the tokens of real texts do or repeat one of the prompt (docs/decisions/0131-*).  The head has an
embedding of its own, in which this share of tokens is exchanged: there it is wrong, and just as
sure.  Needs numpy and gguf.
"""
import argparse

import gguf
import numpy as np

SHAPES = {  # width, layers, feed-forward, heads, KV heads, heads of a state
    "2b": (2048, 24, 6144, 8, 2, 16),
    "0.8b": (1024, 24, 3584, 8, 2, 16),
    "small": (256, 4, 512, 2, 1, 4),
}
HEAD, STATE, TAPS, STEP = 256, 128, 4, 1000
Q4, F32 = gguf.GGMLQuantizationType.Q4_0, gguf.GGMLQuantizationType.F32


def random_q4(rng, rows, columns):
    blocks = rng.integers(0, 256, (rows, columns // 32, 18), np.uint8)
    blocks[..., :2] = np.full(2, 0, np.uint8)
    scale = np.float16(0.3 / np.sqrt(columns)).tobytes()
    blocks[..., 0], blocks[..., 1] = scale[0], scale[1]
    return blocks.reshape(rows, -1)


def zeros_q4(rows, columns):
    return np.zeros((rows, columns // 32 * 18), np.uint8)


def table(rng, n_vocab, n, rows=None):
    """Rows of +-1 in Q4_0; rows: of this one, in another order."""
    if rows is not None:
        return np.ascontiguousarray(rows)
    blocks = np.empty((n_vocab, n // 32, 18), np.uint8)
    signs = rng.integers(0, 2, (n_vocab, n // 32, 16, 2), np.uint8)
    blocks[..., :2] = np.frombuffer(np.float16(1).tobytes(), np.uint8)
    blocks[..., 2:] = np.where(signs[..., 0], 9, 7) | np.where(signs[..., 1], 9, 7) << 4
    return blocks.reshape(n_vocab, -1)


def block(rng, i, shape, attends):
    n, _, ff, heads, kv, states = shape
    ones = np.ones(n, np.float32)
    out = {"attn_norm.weight": ones, "post_attention_norm.weight": ones,
           "ffn_gate.weight": random_q4(rng, ff, n), "ffn_up.weight": random_q4(rng, ff, n),
           "ffn_down.weight": zeros_q4(n, ff)}
    if attends:
        of_head = np.ones(HEAD, np.float32)
        out |= {"attn_q.weight": random_q4(rng, 2 * heads * HEAD, n),
                "attn_k.weight": random_q4(rng, kv * HEAD, n),
                "attn_v.weight": random_q4(rng, kv * HEAD, n),
                "attn_output.weight": zeros_q4(n, heads * HEAD),
                "attn_q_norm.weight": of_head, "attn_k_norm.weight": of_head}
    else:
        channels, rates = 3 * states * STATE, rng.uniform(-4, -0.01, states).astype(np.float32)
        small = (0.1 * rng.standard_normal((channels, TAPS))).astype(np.float32)
        out |= {"attn_qkv.weight": random_q4(rng, channels, n),
                "attn_gate.weight": random_q4(rng, states * STATE, n),
                "ssm_alpha.weight": np.zeros((states, n), np.float32),
                "ssm_beta.weight": np.zeros((states, n), np.float32),
                "ssm_conv1d.weight": small, "ssm_a": rates,
                "ssm_dt.bias": np.zeros(states, np.float32),
                "ssm_norm.weight": np.ones(STATE, np.float32),
                "ssm_out.weight": zeros_q4(n, states * STATE)}
    return {f"blk.{i}.{name}": tensor for name, tensor in out.items()}


def after(n_vocab, within, step):
    """The token `step` after each, in a circle of the first ones and in one of the others."""
    t = np.arange(n_vocab)
    return np.where(t < within, (t + step) % within,
                    within + (t - within + step) % max(n_vocab - within, 1))


def head(rng, i, n, embedding, wrong, within):
    """It depends on the token alone: [1 | 0], with an embedding of its own."""
    places = np.arange(len(embedding))
    odd = rng.random(len(embedding)) < wrong
    places[odd] = after(len(embedding), within, 77 * STEP + 1)[odd]
    join = np.zeros((n, n // 16, 18), np.uint8)
    join[..., :2] = np.frombuffer(np.float16(1).tobytes(), np.uint8)
    join[..., 2:] = 0x88
    for r in range(n):  # value j of a block is the low half of byte j, or the high one of j - 16
        j = r % 32
        join[r, r // 32, 2 + j % 16] = 0x89 if j < 16 else 0x98
    ones = np.ones(n, np.float32)
    of = f"blk.{i}.nextn."
    return {of + "eh_proj.weight": join.reshape(n, -1), of + "enorm.weight": ones,
            of + "hnorm.weight": ones, of + "shared_head_norm.weight": ones,
            of + "embed_tokens.weight": table(rng, 0, n, embedding[places])}


def add_keys(w, arch, shape, n_vocab):
    n, layers, ff, heads, kv, states = shape
    numbers = {"block_count": layers + 1, "nextn_predict_layers": 1, "context_length": 32768,
               "embedding_length": n, "feed_forward_length": ff, "attention.head_count": heads,
               "attention.head_count_kv": kv, "attention.key_length": HEAD,
               "attention.value_length": HEAD, "rope.dimension_count": 64,
               "full_attention_interval": 4, "ssm.conv_kernel": TAPS, "ssm.state_size": STATE,
               "ssm.group_count": states, "ssm.time_step_rank": states,
               "ssm.inner_size": states * STATE, "vocab_size": n_vocab}
    for name, value in numbers.items():
        w.add_uint32(f"{arch}.{name}", value)
    w.add_float32(f"{arch}.rope.freq_base", 1e7)
    w.add_float32(f"{arch}.attention.layer_norm_rms_epsilon", 1e-6)
    w.add_array(f"{arch}.rope.dimension_sections", [11, 11, 10, 0])
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    tokens = [chr(b) if b in printable else chr(next(spare)) for b in range(256)]
    tokens += [f"token{i}" for i in range(256, n_vocab)]
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list(tokens)
    w.add_token_types([gguf.TokenType.NORMAL] * n_vocab)
    w.add_token_merges(["i n"])
    w.add_eos_token_id(n_vocab - 1)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("shape", choices=SHAPES)
    options.add_argument("out")
    options.add_argument("--wrong", type=float, default=0.2)
    options.add_argument("--vocabulary", type=int, default=248320)
    options.add_argument("--within", type=int, default=24571, help="0: all of it")
    o = options.parse_args()
    shape, n_vocab, rng = SHAPES[o.shape], o.vocabulary, np.random.default_rng(7)
    n, layers = shape[0], shape[1]
    w = gguf.GGUFWriter(o.out, "qwen35")
    add_keys(w, "qwen35", shape, n_vocab)
    embedding, within = table(rng, n_vocab, n), o.within or n_vocab
    output = np.empty_like(embedding)
    output[after(n_vocab, within, STEP)] = embedding
    tensors = {"token_embd.weight": embedding, "output.weight": output,
               "output_norm.weight": np.ones(n, np.float32)}
    for i in range(layers):
        tensors |= block(rng, i, shape, (i + 1) % 4 == 0)
    tensors |= block(rng, layers, shape, True) | head(
        rng, layers, n, embedding, o.wrong, within)
    for name, tensor in tensors.items():
        w.add_tensor(name, tensor, raw_dtype=Q4 if tensor.dtype == np.uint8 else F32)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


main()
