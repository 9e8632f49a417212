"""Encode tensors as a file holds them, and fuse Q, K and V.

The gguf package reads some block formats and cannot write them: these get random blocks.
"""
import gguf
import numpy as np
import turned
from gguf import GGMLQuantizationType as Q

GRIDS = (Q.IQ2_XXS, Q.IQ2_XS, Q.IQ2_S, Q.IQ3_XXS, Q.IQ3_S, Q.IQ1_S, Q.IQ1_M)


def half_bytes(x):
    return np.asarray(x, np.float16).reshape(-1, 1).view(np.uint8)


def pack_k_scales(sc, m):
    """Eight 6-bit scales and eight 6-bit minima in twelve bytes (Q4_K, Q5_K)."""
    low = (sc[:, :4] & 63) | (sc[:, 4:] >> 4 << 6)
    mid = (m[:, :4] & 63) | (m[:, 4:] >> 4 << 6)
    return np.concatenate([low, mid, (sc[:, 4:] & 15) | ((m[:, 4:] & 15) << 4)], 1).astype(np.uint8)


def random_blocks(qtype, n, rng, scale):
    """n blocks of random quants and scales, with a super-block scale of about `scale`."""
    def byte(k):
        return rng.integers(0, 256, (n, k), dtype=np.uint8)

    d = scale * rng.uniform(0.7, 1.3, n)
    if qtype in (Q.Q4_K, Q.Q5_K):
        middle = 7.5 if qtype == Q.Q4_K else 15.5
        sc = rng.integers(6, 64, (n, 8))
        m = np.clip(np.rint(sc * rng.uniform(0.8, 1.2, (n, 8))), 0, 63).astype(np.int64)
        tail = [byte(128)] if qtype == Q.Q4_K else [byte(32), byte(128)]
        return np.concatenate([half_bytes(d), half_bytes(d * middle), pack_k_scales(sc, m)] + tail,
                              1)
    if qtype == Q.Q6_K:
        return np.concatenate([byte(128), byte(64), byte(16), half_bytes(d)], 1)
    if qtype == Q.Q3_K:
        return np.concatenate([byte(32), byte(64), byte(12), half_bytes(d)], 1)
    if qtype == Q.Q2_K:
        sc = rng.integers(3, 16, (n, 16))
        m = np.clip(np.rint(sc * rng.uniform(0.8, 1.2, (n, 16))), 0, 15).astype(np.int64)
        return np.concatenate([(sc | m << 4).astype(np.uint8), byte(64), half_bytes(d),
                               half_bytes(d * 1.5)], 1)
    d *= rng.choice([-1.0, 1.0], n)
    if qtype == Q.IQ1_M:  # a quarter of d in the highest bits of each of four halves
        parts = rng.integers(0, 1 << 12, (n, 4), dtype=np.uint16)
        parts |= (half_bytes(d).view(np.uint16) >> np.array([0, 4, 8, 12], np.uint16) & 15) << 12
        return np.concatenate([byte(48), parts.view(np.uint8)], 1)
    if qtype in GRIDS:
        return np.concatenate([half_bytes(d), byte(gguf.GGML_QUANT_SIZES[qtype][1] - 2)], 1)
    if qtype == Q.IQ4_NL:
        return np.concatenate([half_bytes(d), byte(16)], 1)
    assert qtype == Q.IQ4_XS
    return np.concatenate([half_bytes(d), byte(2), byte(4), byte(128)], 1)


def nvfp4(array):
    """The package reads this one only: scales of 16 values from the largest, then the nearest."""
    fmt = gguf.quants.NVFP4
    x = array.astype(np.float32).reshape(-1, 4, 16)
    e = fmt.fp32_to_ue4m3(np.abs(x).max(2) / 6)
    d = fmt.ue4m3_to_fp32(e)[:, :, None]
    x = np.divide(x, d, out=np.zeros_like(x), where=d > 0)
    codes = np.abs(x[..., None] - np.array(fmt.kvalues, np.float32)).argmin(3).astype(np.uint8)
    q = codes[:, :, :8] | codes[:, :, 8:] << 4
    blocks = np.concatenate([e, q.reshape(-1, 32)], 1)
    return blocks.reshape(*array.shape[:-1], array.shape[-1] // 64 * 36)


def encode(array, qtype, rng):
    """The tensor's bytes in the file: [..., bytes of a row]."""
    if qtype == Q.NVFP4:
        return nvfp4(array)
    if qtype not in GRIDS + (Q.Q2_K, Q.Q3_K, Q.Q4_K, Q.Q5_K, Q.Q6_K, Q.IQ4_NL, Q.IQ4_XS):
        return gguf.quantize(array, qtype)
    block, size = gguf.GGML_QUANT_SIZES[qtype]
    assert array.shape[-1] % block == 0
    n = array.size // block
    seed = rng.integers(1 << 62)
    trial = random_blocks(qtype, n, np.random.default_rng(seed), 1e-2)
    scale = 1e-2 * array.std() / gguf.dequantize(trial, qtype).std()
    blocks = random_blocks(qtype, n, np.random.default_rng(seed), scale)
    return blocks.reshape(*array.shape[:-1], array.shape[-1] // block * size)


def type_of(name, shape, fixture):
    """llama.cpp's choice: vectors, biases and the router stay F32."""
    kept = (".bias", "conv1d.weight", "norm.weight", "ssm_a", "ssm_d")
    if len(shape) == 1 or name.endswith(kept) or "ffn_gate_inp" in name:
        return Q.F32
    if "_exps." in name:
        return fixture.get("experts", fixture["type"])
    return fixture.get("types", {}).get(name.split(".")[-2], fixture["type"])


def turned_tensor(t, qtype, turn, rng):
    """A matrix of which the file has a turned one."""
    z = turn.fold(t.name, t.get())
    data = z
    if qtype in turned.SIZES:
        data, z = turned.encode(z, qtype, rng)
    t.set(turn.unfold(t.name, z).reshape(t.shape))
    return t.name, data, qtype


def quantize_model(tensors, fixture, rng, turn=None):
    """Bytes of each tensor; the model gets the weights decoded from these bytes."""
    out = []
    for t in tensors:
        qtype = type_of(t.name, t.shape, fixture)
        if turn and turned.is_turned(t.name):
            out.append(turned_tensor(t, qtype, turn, rng))
            continue
        array, factor = t.get(), np.ones((), np.float32)
        if qtype == Q.NVFP4:  # a factor of the matrix, or of each expert
            n = t.shape[0] if "_exps." in t.name else 1
            factor = (rng.uniform(0.01, 0.1, n) * np.abs(array).max()).astype(np.float32)
            out.append((t.name.replace(".weight", ".scale"), factor, Q.F32))
            factor = factor.reshape(-1, *[1] * (array.ndim - 1))
        data = encode(array / factor, qtype, rng)
        t.set((gguf.dequantize(data, qtype).reshape(t.shape) * factor).astype(np.float32))
        out.append((t.name, data, qtype))
    return out


def fused(data):
    """Q, K and V of a block as one tensor, as some converters write them."""
    out, parts = [], {}
    for name, array, qtype in data:
        block, _, short = name.rpartition(".attn_")
        if short.split(".")[0] not in ("q", "k", "v"):
            out.append((name, array, qtype))
            continue
        kind = short.split(".")[1]
        parts.setdefault((block, kind), []).append(array)
        if len(parts[block, kind]) == 3:
            out.append((f"{block}.attn_qkv.{kind}", np.concatenate(parts[block, kind]), qtype))
    return out
