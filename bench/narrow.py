#!/usr/bin/env python3
"""What narrow types of weights keep of a model: the table of docs/quantization.md.

    build/quality/bin/python bench/narrow.py --lib libggml-base.so --text FILE --calibrate FILE \\
        MODEL.gguf [TYPE ...]

MODEL's weights, as floats, are the source.  Blocks of narrow types have up to 256 columns, and
small models do not: MODEL, of architecture llama, is widened by zeros to multiples of 256 first,
which changes nothing that it computes (columns and heads of zeros; norms times a constant).  All
matrices but the embedding, which is the head, too, are encoded by llama.cpp (ggml_quantize_chunk of
--lib), with an importance matrix that `cerium imatrix` makes of --calibrate where a type wants one.
Compared with the source, over windows whose second halves are scored: the weights alone, in floats
by numpy (KL divergence, likeliest token the same), and cerium with them, as it computes by default
(nats above the source, likeliest token the same).  Prints Markdown.  Needs what quality.py needs.
"""
import argparse
import concurrent.futures
import ctypes
import math
import os
import subprocess

import gguf
import numpy as np

from quality import Floats, cerium, flags, tokens_of
from quantizers import importance

TYPES = {"Q8_0": 8, "Q4_0": 2, "NVFP4": 40, "Q3_K": 11, "IQ3_S": 21, "IQ3_XXS": 18, "Q2_K": 10,
         "IQ2_S": 22, "IQ2_XS": 17, "IQ2_XXS": 16, "IQ1_M": 29, "IQ1_S": 19, "Q2_0": 42,
         "TQ2_0": 35, "TQ1_0": 34, "Q1_0": 41}
BLOCKS = {"Q8_0": (32, 34), "Q4_0": (32, 18), "NVFP4": (64, 36), "Q2_0": (64, 18),
          "Q1_0": (128, 18)}
BYTES = {"Q3_K": 110, "IQ3_S": 110, "IQ3_XXS": 98, "Q2_K": 84, "IQ2_S": 82, "IQ2_XS": 74,
         "IQ2_XXS": 66, "IQ1_M": 56, "IQ1_S": 50, "TQ2_0": 66, "TQ1_0": 54}
WEIGHED = {"Q3_K", "IQ3_S", "IQ3_XXS", "Q2_K", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_M", "IQ1_S"}


def block(name):
    return BLOCKS.get(name) or (256, BYTES[name])


def up(n):
    return (n + 255) // 256 * 256


def widened(path):
    """(keys, tensors) of the model in floats, its columns filled up."""
    reader = gguf.GGUFReader(path)
    keys = {name: field.contents() for name, field in reader.fields.items()
            if not name.startswith("GGUF.")}
    n, heads = keys["llama.embedding_length"], keys["llama.attention.head_count"]
    kv = keys["llama.attention.head_count_kv"]
    dim = n // heads
    wide = up(n)
    # As many heads as fill the columns of the output, each key with as many queries as before.
    while up(heads * dim) != heads * dim:
        heads, kv = heads + heads // kv, kv + 1
    sizes = {"attn_q": (heads * dim, wide), "attn_k": (kv * dim, wide), "attn_v": (kv * dim, wide),
             "attn_output": (wide, heads * dim), "ffn_gate": (None, wide), "ffn_up": (None, wide),
             "ffn_down": (wide, None), "token_embd": (None, wide), "output": (None, wide)}
    tensors = {}
    for t in reader.tensors:
        x = gguf.dequantize(t.data, t.tensor_type).astype(np.float32)
        x = x.reshape([int(d) for d in reversed(t.shape)])
        if x.ndim == 1 and "norm" in t.name:
            x = np.pad(x * np.float32(math.sqrt(n / wide)), (0, wide - n))
        elif x.ndim == 2:
            rows, columns = sizes[t.name.split(".")[-2]]
            x = np.pad(x, ((0, (rows or len(x)) - len(x)),
                           (0, (columns or x.shape[1]) - x.shape[1])))
        tensors[t.name] = x
    eps = keys["llama.attention.layer_norm_rms_epsilon"] * n / wide
    keys |= {"llama.embedding_length": wide, "llama.attention.head_count": heads,
             "llama.attention.head_count_kv": kv, "llama.attention.key_length": dim,
             "llama.attention.value_length": dim, "llama.rope.dimension_count": dim,
             "llama.attention.layer_norm_rms_epsilon": eps}
    return keys, tensors, reader


def write(path, keys, reader, tensors):
    """tensors: {name: (type, array)}, rows of bytes or floats."""
    w = gguf.GGUFWriter(path, "llama")
    for name, value in keys.items():
        if name == "general.architecture":
            continue
        kinds = reader.fields[name].types if name in reader.fields else [
            gguf.GGUFValueType.UINT32]
        w.add_key_value(name, value, kinds[0], kinds[1] if len(kinds) > 1 else None)
    for name, (kind, x) in tensors.items():
        w.add_tensor(name, x, raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def encoded(args, lib, name, tensor, x, weights):
    """Rows of bytes; kept in --work, so that a run that was interrupted goes on."""
    values, size = block(name)
    kept = os.path.join(args.work, f"narrow-{name}-{tensor}.npy")
    if os.path.exists(kept):
        return np.load(kept)
    to = np.zeros((len(x), x.shape[1] // values * size), np.uint8)
    x = np.ascontiguousarray(x)
    column = None if weights is None else np.ascontiguousarray(weights)
    used = lib.ggml_quantize_chunk(TYPES[name], x.ctypes.data, to.ctypes.data, 0, len(x),
                                   x.shape[1], None if column is None else column.ctypes.data)
    assert used == to.nbytes, (name, used, to.nbytes)
    np.save(kept + ".part.npy", to)
    os.replace(kept + ".part.npy", kept)
    return to


def decoded(lib, name, rows, columns):
    """By llama.cpp: the gguf package lacks some types."""
    out = np.zeros((len(rows), columns), np.float32)
    decode = getattr(lib, "dequantize_row_" + (name[0].lower() + name[1:] if name[0] == "Q" else
                                               name.lower()))
    decode(ctypes.c_void_p(rows.ctypes.data), ctypes.c_void_p(out.ctypes.data),
           ctypes.c_int64(out.size))
    return out


def logs(args, model, tokens):
    half = args.window // 2
    for at in range(0, args.windows * half, half):
        yield from model.logs(tokens[at:at + args.window], half)


def compare(args, model, tokens, source):
    kl, same = [], []
    for have, want in zip(logs(args, model, tokens), source):
        kl.append((np.exp(want) * (want - have)).sum())
        same.append(have.argmax() == want.argmax())
    kl, same = np.array(kl), np.mean(same)
    return (f"{kl.mean():.4f} +- {kl.std() / len(kl) ** .5:.4f}", f"{100 * same:.1f}")


def in_cerium(args, path, tokens, source):
    """Of the same tokens: those after the first half of each window."""
    have = cerium(args, path, args.text)
    half = args.window // 2
    scored = have[half:half + len(source)]  # without the token behind the last window
    targets = np.array(tokens[half + 1:half + 1 + len(scored)])
    assert (scored[:, 0] == targets).all()
    worse = np.array([want[int(t)] for t, want in zip(targets, source)]) - scored[:, 1]
    same = np.mean([want.argmax() == b for want, b in zip(source, scored[:, 2])])
    return (f"{worse.mean():+.3f} +- {worse.std() / len(worse) ** .5:.3f}", f"{100 * same:.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("model")
    parser.add_argument("types", nargs="*", metavar="TYPE")
    parser.add_argument("--lib", required=True, help="llama.cpp's libggml-base.so")
    parser.add_argument("--text", required=True)
    parser.add_argument("--calibrate", required=True)
    parser.add_argument("--cerium", default="./cerium")
    parser.add_argument("--work", default="/tmp", help="folder for the files")
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    lib = ctypes.CDLL(args.lib)
    for name in BLOCKS:  # the package lacks the newest
        gguf.GGML_QUANT_SIZES[TYPES[name]] = block(name)
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p,
                                        ctypes.c_int64, ctypes.c_int64, ctypes.c_int64,
                                        ctypes.c_void_p]
    keys, tensors, reader = widened(args.model)
    floats = os.path.join(args.work, "narrow-floats.gguf")
    matrix = os.path.join(args.work, "narrow-imatrix.gguf")
    f32 = gguf.GGMLQuantizationType.F32
    if not os.path.exists(floats):
        write(floats, keys, reader, {name: (f32, x) for name, x in tensors.items()})
    if not os.path.exists(matrix):
        subprocess.run([args.cerium, "imatrix", "-m", floats, args.calibrate, matrix], check=True)
    tokens = tokens_of(args, floats, args.text)
    kept = os.path.join(args.work, "narrow-source.npy")
    if not os.path.exists(kept):
        np.save(kept, np.array(list(logs(args, Floats(floats), tokens)), np.float32))
    source = np.load(kept)
    sums = importance(matrix)
    wide = [t for t, x in tensors.items() if x.ndim == 2]
    print(f"{flags(args)}; {len(source)} tokens\n\n| type | bits | KL divergence of the weights | "
          "likeliest token the same, % | nats above, as cerium computes | likeliest the same, % |"
          "\n|---|---|---|---|---|---|", flush=True)
    for name in args.types or TYPES:
        path = os.path.join(args.work, "narrow-type.gguf")
        model, out = Floats(floats), {}

        def encode(t, name=name):
            of = "Q8_0" if t == "token_embd.weight" else name
            return of, encoded(args, lib, of, t, tensors[t], sums.get(t) if of in WEIGHED else None)

        with concurrent.futures.ThreadPoolExecutor(args.threads) as pool:
            matrices = dict(zip(wide, pool.map(encode, wide)))
        for t, x in tensors.items():
            out[t] = (f32, x)
            if t in matrices:
                of, rows = matrices[t]
                out[t] = (TYPES[of], rows)
                model.model.weights[t] = decoded(lib, of, rows, x.shape[1])
        write(path, keys, reader, {t: (gguf.GGMLQuantizationType(k) if k < 42 else k, x)
                                   for t, (k, x) in out.items()})
        values, size = block(name)
        of_weights, of_cerium = compare(args, model, tokens, source), in_cerium(
            args, path, tokens, source)
        print("|", " | ".join([name, f"{8 * size / values:g}", *of_weights, *of_cerium]), "|",
              flush=True)


if __name__ == "__main__":
    main()
