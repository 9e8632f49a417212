#!/usr/bin/env python3
"""Write a drafter as Hugging Face has it: a folder of config.json and model.safetensors.

    python3 drafters.py FORM DRAFTER.gguf FOLDER [CHANGE]

FORM is who wrote it: eagle (the authors of EAGLE-3), specforge, speculators (vLLM's), zlab (the
authors of DFlash).  The values are those of a fixture, in float.  CHANGE is Python that may alter
config (an object) and tensors (name: [dtype, shape, bytes]) before they are written.
"""
import array
import json
import os
import struct
import sys

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q",
           12: "d"}
F32, I64 = 0, 27


class Gguf:
    def __init__(self, path):
        with open(path, "rb") as f:
            self.raw = f.read()
        self.at = 8
        n_tensors, n_keys = self.take("QQ")
        self.keys = {self.text(): self.value() for _ in range(n_keys)}
        entries = []
        for _ in range(n_tensors):
            name, (n_dims,) = self.text(), self.take("I")
            dims = self.take("Q" * n_dims)
            entries.append((name, list(reversed(dims)), *self.take("IQ")))
        start = (self.at + 31) // 32 * 32
        self.tensors = {}
        for name, shape, kind, offset in entries:
            n = 1
            for d in shape:
                n *= d
            size = n * {F32: 4, I64: 8}.get(kind, 0)  # of models only the shape is wanted
            self.tensors[name] = [kind, shape, self.raw[start + offset:start + offset + size]]

    def take(self, form):
        values = struct.unpack_from("<" + form, self.raw, self.at)
        self.at += struct.calcsize("<" + form)
        return values

    def text(self):
        n, = self.take("Q")
        self.at += n
        return self.raw[self.at - n:self.at].decode()

    def value(self, kind=None):
        if kind is None:
            kind, = self.take("I")
        if kind == 8:
            return self.text()
        if kind == 9:
            kind, n = self.take("IQ")
            return [self.value(kind) for _ in range(n)]
        return self.take(SCALARS[kind])[0]


LAYER = {"attn_norm": "input_layernorm", "attn_norm_2": "hidden_norm", "attn_q": "self_attn.q_proj",
         "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
         "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
WHOLE = {"fc": "fc", "output_norm": "norm", "token_embd": "embed_tokens", "output": "lm_head",
         "markov_w1": "markov_head.markov_w1", "markov_w2": "markov_head.markov_w2",
         "conf_proj": "confidence_head.proj"}


def halves(shape, data, dim):
    """Channels 2 j and 2 j + 1 of each head, which turn together, become j and j + dim / 2."""
    row = len(data) // shape[0]
    out = b""
    for head in range(shape[0] // dim):
        rows = [data[(head * dim + r) * row:(head * dim + r + 1) * row] for r in range(dim)]
        out += b"".join(rows[0::2] + rows[1::2])
    return out


def name_of(gguf_name, arch, form):
    name = gguf_name.removesuffix(".weight")
    if name.startswith("fc_norm."):
        return ("model." if form == "specforge" else "") + gguf_name
    if name == "enc.output_norm":
        return "input_norm.weight" if arch == "eagle3" else "hidden_norm.weight"
    if not name.startswith("blk."):
        return WHOLE[name] + ".weight"
    layer, rest = name[4:].split(".", 1)
    is_only = arch == "eagle3" and form in ("eagle", "specforge")
    begin = "midlayer." if is_only else f"layers.{layer}."
    return f"{begin}{LAYER[rest]}.weight"


def tensors_of(g, arch, form, dim, n_vocab):
    out = {}
    for name, (kind, shape, data) in g.tensors.items():
        if name == "d2t":
            said = array.array("q", data)
            out["d2t"] = ["I64", shape, array.array("q", (t - i for i, t in enumerate(said)))
                          .tobytes()]
            is_said = bytearray(n_vocab)
            for t in said:
                is_said[t] = 1
            out["t2d"] = ["BOOL", [n_vocab], bytes(is_said)]
            continue
        if arch == "eagle3" and name.endswith(("attn_q.weight", "attn_k.weight")):
            data = halves(shape, data, dim)
        out[name_of(name, arch, form)] = ["F32", shape, data]
    return out


def shape_of(g, arch, n_vocab):
    key = lambda name: g.keys[f"{arch}.{name}"]
    return {"hidden_size": key("embedding_length"), "intermediate_size": key("feed_forward_length"),
            "num_hidden_layers": key("block_count"),
            "num_attention_heads": key("attention.head_count"),
            "num_key_value_heads": key("attention.head_count_kv"),
            "head_dim": key("attention.key_length"), "hidden_act": "silu", "model_type": "llama",
            "max_position_embeddings": key("context_length"), "vocab_size": n_vocab,
            "rms_norm_eps": round(key("attention.layer_norm_rms_epsilon"), 9),
            "rope_theta": key("rope.freq_base"), "rope_scaling": None, "attention_bias": False,
            "tie_word_embeddings": False, "sliding_window": None, "use_sliding_window": False}


def eagle3(g, form, n_vocab, n_said):
    shape, layers = shape_of(g, "eagle3", n_vocab), g.keys["eagle3.target_layers"]
    more = {"draft_vocab_size": n_said, "target_hidden_size": g.keys["eagle3.target_hidden_size"]}
    for name in ("norm_before_residual", "norm_before_fc", "norm_output"):
        more[name] = bool(g.keys.get(f"eagle3.{name}"))
    more["fc_norm"] = "fc_norm.0.weight" in g.tensors
    if form == "speculators":
        return {"architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3",
                "speculators_config": {"algorithm": "eagle3"}, "transformer_layer_config": shape,
                "eagle_aux_hidden_state_layer_ids": layers} | more
    if form == "specforge":
        return {"architectures": ["LlamaForCausalLMEagle3"],
                "eagle_config": {"eagle_aux_hidden_state_layer_ids": [n - 1 for n in layers]}} \
            | shape | more
    return {"architectures": ["LlamaForCausalLM"], "eagle_aux_hidden_state_layer_ids": layers,
            "pad_token_id": 0} | shape | more


def dflash(g, form, n_vocab, n_said):
    shape, layers = shape_of(g, "dflash", n_vocab), g.keys["dflash.target_layers"]
    shape["model_type"] = "qwen3"
    is_spark = "markov_w1.weight" in g.tensors
    name = "DSpark" if is_spark else "DFlash"
    rows, mask = g.keys["dflash.block_size"], g.keys["tokenizer.ggml.mask_token_id"]
    windows = g.keys.get("dflash.attention.sliding_window_pattern", [False] *
                         shape["num_hidden_layers"])
    shape["layer_types"] = ["sliding_attention" if w else "full_attention" for w in windows]
    if any(windows):
        shape |= {"sliding_window": g.keys["dflash.attention.sliding_window"],
                  "use_sliding_window": True}
    more = {"draft_vocab_size": n_said, "block_size": rows}
    if "dflash.embedding_scale" in g.keys:
        more["input_embedding_scale"] = g.keys["dflash.embedding_scale"]
    if is_spark:
        more |= {"sample_from_anchor": bool(g.keys.get("dflash.sample_from_anchor", True)),
                 "markov_head_type": "vanilla"}
    if form == "speculators":
        return {"architectures": [f"{name}Speculator"], "transformer_layer_config": shape,
                "speculators_model_type": name.lower(), "aux_hidden_state_layer_ids": layers,
                "mask_token_id": mask, "sliding_window_non_causal": True} | more
    config = {"mask_token_id": mask, "target_layer_ids": [n - 1 for n in layers]}
    if g.keys.get("dflash.attention.causal"):
        config["causal"] = True
    return {"architectures": [f"{name}DraftModel"], "dflash_config": config,
            "num_target_layers": 9} | shape | more


def main(form, source, folder, change=""):
    g = Gguf(source)
    arch = g.keys["general.architecture"]
    name = os.path.basename(source)
    model = "llama" if "llama" in name or "causal" in name else "qwen35"
    of = Gguf(os.path.join(os.path.dirname(source), f"{model}.gguf"))
    n_vocab = of.tensors["token_embd.weight"][1][0]
    said = g.tensors.get("d2t")
    n_said = said[1][0] if said else n_vocab
    config = {"eagle3": eagle3, "dflash": dflash}[arch](g, form, n_vocab, n_said)
    dim = g.keys[f"{arch}.attention.key_length"]
    tensors = tensors_of(g, arch, form, dim, n_vocab)
    exec(change)
    os.makedirs(folder, exist_ok=True)
    head, body = {}, b""
    for name, (dtype, shape, data) in tensors.items():
        head[name] = {"dtype": dtype, "shape": shape,
                      "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(head).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + body)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f, indent=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
