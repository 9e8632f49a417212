#!/usr/bin/env python3
"""cerium quantize and llama.cpp's encoders on the same weights, type by type.

    build/quality/bin/python bench/quantizers.py --text FILE MODEL.gguf [TYPE ...]

MODEL holds floats.  cerium writes it in each type; a copy of that file is made in which every
matrix that changed its type is encoded by llama.cpp instead (ggml_quantize_chunk), so both have the
same types everywhere.  Both are computed in floats (numpy) over the same windows and compared with
MODEL: KL divergence, likeliest token the same, so that nothing but the encoders differs; "by token"
is the paired difference, whose error is smaller than that of either.  Without
--text only the weights are compared, and MODEL may be a few tensors of one.  --imatrix FILE: both
encoders with it.  Prints Markdown.  Needs what quality.py needs.
"""
import argparse
import ctypes
import filecmp
import os
import shutil
import subprocess
import tempfile

import gguf
import numpy as np

from quality import Floats, flags, tokens_of

TYPES = ["Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "IQ4_NL", "MXFP4", "Q6_K", "Q5_K", "Q4_K",
         "Q3_K", "IQ4_XS"]


def importance(path):
    """{tensor: [columns]} of an importance matrix."""
    sums, counts = {}, {}
    for t in gguf.GGUFReader(path).tensors if path else []:
        name, what = t.name.rsplit(".", 1)
        (sums if what == "in_sum2" else counts)[name] = t.data.astype(np.float64).ravel()
    return {n: (s / counts[n][0]).astype(np.float32) for n, s in sums.items()}


def make_twin(lib, source, ours, theirs, weights):
    """theirs: ours, its matrices encoded by llama.cpp; [(name, square error of both, power)]."""
    chunk = lib.ggml_quantize_chunk
    chunk.restype = ctypes.c_size_t
    chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64,
                      ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    shutil.copyfile(ours, theirs)
    floats = {t.name: t for t in gguf.GGUFReader(source).tensors}
    out, errors = np.memmap(theirs, mode="r+"), []
    for t in gguf.GGUFReader(ours).tensors:
        of = floats[t.name]
        if t.tensor_type == of.tensor_type:
            continue
        n_cols = int(t.shape[0])
        x = gguf.dequantize(of.data, of.tensor_type).astype(np.float32).reshape(-1, n_cols)
        x = np.ascontiguousarray(x)
        to = np.zeros(t.n_bytes, np.uint8)
        w = weights.get(t.name)
        used = chunk(int(t.tensor_type), x.ctypes.data, to.ctypes.data, 0, len(x), n_cols,
                     w.ctypes.data if w is not None else None)
        assert used == t.n_bytes, (t.name, used, t.n_bytes)
        out[t.data_offset:t.data_offset + t.n_bytes] = to
        by = 1 if w is None else w[None, :]
        mine, other = (gguf.dequantize(d, t.tensor_type).reshape(x.shape).astype(np.float32)
                       for d in (t.data, to.reshape(t.data.shape)))
        errors.append((t.name, float((by * (mine - x) ** 2).sum()),
                       float((by * (other - x) ** 2).sum()), float((by * x ** 2).sum())))
    out.flush()
    return errors


def windows(args, model, tokens):
    floats, half = Floats(model), args.window // 2
    for at in range(0, args.windows * args.window, args.window):
        yield from floats.logs(tokens[at:at + args.window], half)


def compare(args, model, tokens, source):
    kl, same = [], []
    for ours, want in zip(windows(args, model, tokens), source):
        kl.append((np.exp(want) * (want - ours)).sum())
        same.append(ours.argmax() == want.argmax())
    return np.array(kl), 100 * np.array(same)


def mean(values, form=".5f"):
    return f"{np.mean(values):{form}} +- {np.std(values) / len(values) ** 0.5:{form}}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("model", metavar="MODEL.gguf")
    parser.add_argument("types", nargs="*", default=TYPES, metavar="TYPE")
    parser.add_argument("--text", metavar="FILE")
    parser.add_argument("--imatrix", metavar="FILE")
    parser.add_argument("--cerium", default="./cerium")
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    tokens = tokens_of(args, args.model, args.text) if args.text else []
    source = list(windows(args, args.model, tokens)) if args.text else []
    import llama_cpp
    lib, weights = llama_cpp.llama_cpp._lib, importance(args.imatrix)
    print(f"{flags(args)}; {len(source):,} tokens{', with an importance matrix' * bool(weights)}\n")
    columns = ["type", "error of weights, %", "llama.cpp's"]
    if args.text:
        columns += ["KL divergence", "llama.cpp's", "by token: ours less theirs",
                    "likeliest token the same, %", "llama.cpp's"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
    for kind in args.types:
        with tempfile.TemporaryDirectory() as work:
            ours, theirs = os.path.join(work, "ours.gguf"), os.path.join(work, "theirs.gguf")
            more = ["--imatrix", args.imatrix] if args.imatrix else []
            subprocess.run([args.cerium, "quantize", *more, "--head", kind, args.model, ours, kind],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            errors = make_twin(lib, args.model, ours, theirs, weights)
            power = sum(e[3] for e in errors)
            mine, other = (100 * (sum(e[i] for e in errors) / power) ** 0.5 for i in (1, 2))
            row = [kind, f"{mine:.3f}", f"{other:.3f}"]
            if args.text:
                have = [compare(args, ours, tokens, source)]
                have += have if filecmp.cmp(ours, theirs, shallow=False) else [
                    compare(args, theirs, tokens, source)]
                (kl, same), (their_kl, their_same) = have
                row += [mean(kl), mean(their_kl), mean(kl - their_kl, "+.5f"),
                        mean(same, ".2f"), mean(their_same, ".2f")]
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
