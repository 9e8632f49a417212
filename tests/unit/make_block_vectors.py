#!/usr/bin/env python3
"""Write tests/unit/block_vectors.h: random blocks of every type and what they mean.

    pip install gguf numpy && tests/unit/make_block_vectors.py > tests/unit/block_vectors.h

The float bits come from the `gguf` package, ggml's own description of its formats; of those
that it does not know (Q1_0, Q2_0, PQ2_0, PTQ1_0) from their layout.  If that
package also encodes a type, its encoding of a row is written too.  Deterministic.
"""
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T, quants

TYPES = [T.F32, T.F16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q4_K, T.Q5_K, T.Q6_K, T.IQ4_NL,
         T.IQ4_XS, T.BF16, T.MXFP4, T.Q3_K, T.TQ1_0, T.TQ2_0,
         T.Q2_K, T.IQ3_S, T.IQ3_XXS, T.IQ2_XXS, T.IQ2_XS, T.IQ2_S]
# Byte offsets of the half-precision fields of a block.
HALVES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q4_K: [0, 2],
          T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0], T.IQ4_XS: [0],
          T.Q3_K: [108], T.TQ1_0: [52], T.TQ2_0: [64], T.Q2_K: [80, 82], T.IQ3_S: [0],
          T.IQ3_XXS: [0], T.IQ1_S: [0], T.IQ2_XXS: [0], T.IQ2_XS: [0], T.IQ2_S: [0]}


class Own:
    """A type that the package does not know: values and bytes of a block, and its decoding."""
    def __init__(self, name, values, size, decode):
        self.name, self.values, self.size, self.decode = name, values, size, decode


def fields(raw, bits):
    """The fields of each byte of [blocks][bytes], the lowest first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return (raw[:, :, None] >> shifts & ((1 << bits) - 1)).reshape(len(raw), -1).astype(np.float32)


def halves_of(raw):
    return np.ascontiguousarray(raw[:, :2]).view(np.float16).astype(np.float32)


def digits(raw):
    """Base 3 as TQ1_0 has it, in runs of 16, 8 and 2 bytes, whose n-th digits follow each other."""
    parts = [[raw[:, a:b] * np.uint8(3 ** n) for n in range(k)]
             for a, b, k in ((0, 16, 5), (16, 24, 5), (24, 26, 4))]
    return (np.concatenate(sum(parts, []), 1).astype(np.uint16) * 3 >> 8).astype(np.float32)


OWN = [Own("Q1_0", 128, 18, lambda raw: halves_of(raw) * (fields(raw[:, 2:], 1) * 2 - 1)),
       Own("Q2_0", 64, 18, lambda raw: halves_of(raw) * (fields(raw[:, 2:], 2) - 1))]
PRISM = [Own("PQ2_0", 128, 34, lambda raw: halves_of(raw) * (fields(raw[:, 2:], 2) - 1)),
         Own("PTQ1_0", 128, 28, lambda raw: halves_of(raw[:, 26:]) * (digits(raw) - 1))]
ALL = TYPES + OWN + [T.NVFP4] + PRISM + [T.IQ1_S, T.IQ1_M]


def blocks_of(kind, rng):
    """Random bytes; scales are finite halves: usual ones, a denormal, zero, a negative one."""
    is_own = isinstance(kind, Own)
    values, size = (kind.values, kind.size) if is_own else GGML_QUANT_SIZES[kind]
    n = max(2, 128 // values)
    if kind in (T.F32, T.BF16):
        x = (rng.standard_normal(n) * 10.0 ** rng.integers(-30, 30, n)).astype(np.float32)
        x[:3] = [0.0, -0.0, 1e-42]
        bits = x.view(np.uint32)
        return (x if kind == T.F32 else (bits >> 16).astype(np.uint16)).view(np.uint8)
    if kind == T.F16:
        x = rng.integers(0, 65536, n).astype(np.uint16)
        x[:4] = [0, 0x8000, 1, 0x83FF]
        x[(x & 0x7C00) == 0x7C00] ^= 0x4000
        return x.view(np.uint8)
    raw = rng.integers(0, 256, (n, size)).astype(np.uint8)
    for at in [26 if kind.name == "PTQ1_0" else 0] if is_own else HALVES.get(kind, []):
        d = (rng.standard_normal(n) * 0.02).astype(np.float16)
        d[-1] = [np.float16(6e-7), np.float16(0), np.float16(-3)][at % 3]
        raw[:, at:at + 2] = d.view(np.uint8).reshape(n, 2)
    if kind == T.MXFP4:
        raw[:, 0] = [0, 1, 127, 120][:n]
    if kind == T.IQ1_M:  # d is in the highest bits of four halves
        d = np.array([0.02, -3], np.float16).view(np.uint16)
        parts = raw[:, 48:].copy().view(np.uint16) & 0xFFF
        parts |= (d[:, None] >> np.array([0, 4, 8, 12], np.uint16) & 15) << 12
        raw[:, 48:] = parts.astype(np.uint16).view(np.uint8)
    if kind == T.NVFP4:
        raw[:, :4] = [[0, 1, 7, 8], [0x38, 0x7e, 0x80, 0xfe]]
    return raw.reshape(-1)


def print_array(c_type, name, items, digits, per_line):
    print(f"static const {c_type} {name}[{len(items)}] = {{")
    for i in range(0, len(items), per_line):
        print("    " + " ".join(f"0x{int(x):0{digits}x}," for x in items[i:i + per_line]))
    print("};")


def main():
    rng = np.random.default_rng(1)
    print("/* block_vectors.h - made by make_block_vectors.py from the `gguf` package. */")
    print("/* clang-format off */")
    encoded = []
    row = (rng.standard_normal(256) * 0.05).astype(np.float32)
    row[64:96] = 0
    row[96:128] = np.abs(row[96:128])
    print_array("uint32_t", "vector_row", row.view(np.uint32), 8, 8)
    for kind in ALL:
        raw = blocks_of(kind, rng)
        shape = raw.reshape(1, -1)
        if isinstance(kind, Own):
            out = kind.decode(raw.reshape(-1, kind.size))
        elif kind in (T.F32, T.F16):
            out = shape.view(np.float32 if kind == T.F32 else np.float16).astype(np.float32)
        else:
            out = quants.dequantize(shape, kind)
        out = np.ascontiguousarray(out.reshape(-1), dtype=np.float32)
        print_array("uint8_t", f"blocks_{kind.name}", raw, 2, 16)
        print_array("uint32_t", f"values_{kind.name}", out.view(np.uint32), 8, 8)
        if isinstance(kind, Own):
            continue
        try:
            code = quants.quantize(row.reshape(1, -1), kind).view(np.uint8).reshape(-1)
        except NotImplementedError:
            continue
        if kind not in (T.F32, T.F16):
            encoded.append(kind.name)
            print_array("uint8_t", f"encoded_{kind.name}", code, 2, 16)
    scales = quants.NVFP4.ue4m3_to_fp32(np.arange(256, dtype=np.uint8)).astype(np.float32)
    print_array("uint32_t", "ue4m3_half_values", scales.view(np.uint32), 8, 8)
    names = [k.name for k in ALL]
    print("#define BLOCK_VECTORS(X) \\\n    " + " \\\n    ".join(f"X({k})" for k in names))
    print("#define ENCODED_VECTORS(X) \\\n    " + " \\\n    ".join(f"X({k})" for k in encoded))


main()
