"""Weights that are turned by a Walsh-Hadamard transform before they are rounded (PrismML's).

A matrix of the file is H (s * w) for each run of columns of each row, s by the row's width; the
model gets s * (H of what the file says).  The columns of ssm_out are those of transformers (heads
by their keys), where other files have llama.cpp's order.
"""
import gguf
import numpy as np

PQ2_0, PTQ1_0 = 142, 143
SIZES = {PQ2_0: (128, 34), PTQ1_0: (128, 28)}
gguf.GGML_QUANT_SIZES.update(SIZES)
gguf.constants.GGML_QUANT_SIZES.update(SIZES)
KINDS = ("attn_q", "attn_k", "attn_v", "attn_qkv", "attn_gate", "attn_output", "ffn_gate", "ffn_up",
         "ffn_down", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", "ffn_gate_shexp",
         "ffn_up_shexp", "ffn_down_shexp", "ssm_out")


def is_turned(name):
    kind = name.split(".")[-2]
    return name.endswith(".weight") and (kind in KINDS or kind in ("output", "token_embd"))


def hadamard(n):
    index = np.arange(n)
    parity = np.array([[bin(i & j).count("1") & 1 for j in index] for i in index])
    return ((1 - 2 * parity) / np.sqrt(n)).astype(np.float64)


class Turn:
    def __init__(self, run, config, seed):
        self.run, self.h, self.signs = run, hadamard(run), {}
        self.rng = np.random.default_rng(seed)
        self.heads = (getattr(config, "linear_num_key_heads", 1),
                      getattr(config, "linear_num_value_heads", 1))

    def of(self, width):
        if width not in self.signs:
            self.signs[width] = self.rng.choice([-1, 1], width)
        return self.signs[width]

    def blocks(self, x):
        shape = x.shape
        return (x.astype(np.float64).reshape(*shape[:-1], -1, self.run) @ self.h).reshape(shape)

    def order(self, name, width):
        """Columns of the file for columns in llama.cpp's order."""
        keys, values = self.heads
        if "ssm_out" not in name:
            return np.arange(width)
        return np.arange(width).reshape(values // keys, keys, -1).swapaxes(0, 1).reshape(-1)

    def fold(self, name, w):
        w = w[..., self.order(name, w.shape[-1])]
        return self.blocks(w * self.of(w.shape[-1])).astype(np.float32)

    def unfold(self, name, z):
        width = z.shape[-1]
        w = self.blocks(z) * self.of(width)
        out = np.empty_like(w)
        out[..., self.order(name, width)] = w
        return out.astype(np.float32)

    def add_keys(self, w, names):
        key = "prism.hadamard."
        w.add_uint32(key + "version", 1)
        w.add_uint32(key + "block_size", self.run)
        w.add_string(key + "transform", "normalized-sylvester-walsh-hadamard")
        w.add_string(key + "axis", "input-last-dimension")
        w.add_string(key + "sign_mode", "explicit")
        w.add_array(key + "weight_names", [n for n in names if n != "token_embd.weight"])
        w.add_array(key + "inverse_weight_names", ["token_embd.weight"])
        w.add_array(key + "sign_widths", [int(n) for n in self.signs])
        w.add_array(key + "sign_values", [int(v) for s in self.signs.values() for v in s])
        w.add_bool(key + "gdn_v_grouped", True)


def encode(array, qtype, rng):
    """Blocks of 128 values -1, 0, 1 times a scale; in PQ2_0 also 2."""
    x = array.reshape(-1, 128)
    d = (np.abs(x).mean(1, keepdims=True) * rng.uniform(1.2, 1.6, (len(x), 1))).astype(np.float16)
    q = np.clip(np.rint(x / d), -1, 2 if qtype == PQ2_0 else 1).astype(np.int64) + 1
    raw = np.zeros((len(x), SIZES[qtype][1]), np.uint8)
    if qtype == PQ2_0:
        raw[:, :2] = d.view(np.uint8)
        raw[:, 2:] = (q.reshape(len(x), 32, 4) << [0, 2, 4, 6]).sum(2)
    else:
        at = 0
        for first, end, n_bytes, digits in ((0, 80, 16, 5), (80, 120, 8, 5), (120, 128, 2, 4)):
            t = q[:, first:end].reshape(len(x), digits, n_bytes)
            whole = sum(t[:, i] * 3 ** (4 - i) for i in range(digits))
            raw[:, at:at + n_bytes] = (whole * 256 + 242) // 243
            at += n_bytes
        raw[:, 26:] = d.view(np.uint8)
    values = ((q - 1) * d.astype(np.float32)).reshape(array.shape).astype(np.float32)
    shape = (*array.shape[:-1], array.shape[-1] // 128 * SIZES[qtype][1])
    return raw.reshape(shape), values
