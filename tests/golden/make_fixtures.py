#!/usr/bin/env python3
"""Make the golden fixtures: small random models as GGUF, and the logits transformers gives them.

Owns tests/golden/fixtures/: NAME.gguf, written as llama.cpp's converter does, and
NAME.expect, the logits of transformers in float32 (eager attention) with the weights that
gguf.dequantize() reads back from the very bytes in the file; for float files with an F16 KV cache,
too.  Nothing is downloaded.

    python3 make_fixtures.py            make all, check all, print one line per fixture
    python3 make_fixtures.py qwen2      only fixtures whose name begins with it
    python3 make_fixtures.py float      only those whose matrices are F32, F16 or BF16
    python3 make_fixtures.py stories [DATA]
                                        stories260K.logits, of the model in ../shared/data

README.md describes the files, the origin of the bounds, and lessons.
"""
import json
import math
import os
import sys

import numpy as np
import torch
from transformers import LlamaForCausalLM

import turned
from expect_file import FLOAT_BOUND, KL_LEAST, SAFETY, write_expect
from gguf_file import write_gguf
from model_list import FIXTURES, LONG, SHORT, is_float, make_model
from model_tensors import randomise, tensors_of
from quantize import fused, quantize_model
from reference import choose_tokens, float64_error, kl_rows, run, simulate

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "fixtures")
DATA = os.path.join(HERE, "..", "..", "..", "shared", "data")  # beside the repository

STORY_BOUND = 1e-3    # of the logits of stories260K
TIES = 0.5            # of FLOAT_BOUND, at most: the cost of flipped F16 roundings
ABLATION_LEAST = 2.0  # dropping any tensor must exceed a bound by this factor


def excess(model, sequences, rows, reference, bounds):
    """The largest factor by which the changed model exceeds a bound."""
    worst = 0.0
    for s, r, ref in zip(sequences, rows, reference):
        got = run(model, s)[0][0, r:]
        worst = max(worst, (got - ref[r:]).abs().max().item() / bounds[0],
                    kl_rows(ref[r:], got).max().item() / bounds[1])
    return worst


def ablate(model, tensors, idle, *expected):
    """The tensor whose loss has the least effect, and that effect; idle: endings of names of those
    that can have none."""
    least = (math.inf, "")
    for t in tensors:
        if t.name.endswith(idle):
            continue
        saved = t.get()
        norm = "norm" in t.name and t.name.endswith(".weight")
        t.set(np.ones_like(saved) if norm else np.zeros_like(saved))
        least = min(least, (excess(model, *expected), t.name))
        t.set(saved)
    return least


def feature_check(model, fixture, *expected):
    """Rope scaling and the sliding window must affect the logits, too."""
    notes = []
    for label, change in fixture.get("without", {}).items():
        other = make_model(fixture, change)
        other.load_state_dict(model.state_dict())
        times = excess(other, *expected)
        assert times > ABLATION_LEAST, (fixture["name"], label, times)
        notes.append(f"{label} x{times:.0f}")
    return notes


def make(fixture):
    rng = np.random.default_rng(fixture["seed"])
    model = make_model(fixture)
    arch = fixture["arch"]
    randomise(model, rng)
    tensors = tensors_of(model, arch, fixture.get("old"))
    turn = turned.Turn(fixture["turned"], model.config, 1) if "turned" in fixture else None
    data = quantize_model(tensors, fixture, rng, turn)
    name = fixture["name"]
    if fixture.get("fused"):
        data = fused(data)
    write_gguf(os.path.join(OUT, name + ".gguf"), arch, model.config, fixture, data, turn)

    quantized = not is_float(fixture)
    long = fixture.get("long", LONG)
    short = fixture.get("short", SHORT)
    sequences = [choose_tokens(model, n, rng) for n in (long, *short)]
    kept = 2 if quantized else 10  # of each short one
    rows = [long - (6 if quantized else 16)] + [max(0, n - kept) for n in short]
    results = [run(model, s) for s in sequences]
    reference = [logits[0] for logits, _ in results]
    routers = [gates for _, gates in results]

    half, error, kl, margin = simulate(model, sequences, rows, reference, quantized, routers)
    bound = SAFETY * error if quantized else max(FLOAT_BOUND, SAFETY * error)
    kl_bound = max(KL_LEAST, SAFETY * kl)
    assert margin > 1.5, f"{name}: routing is too close to call ({margin:.2f})"
    exact = float64_error(model, sequences, rows, reference)
    flips = 0.0 if quantized else float64_error(model, sequences, rows, half, True)
    assert flips < TIES * FLOAT_BOUND, f"{name}: keys or values too near a tie ({flips:.1e})"
    tensors = tensors_of(model, arch, fixture.get("old"))  # float() allocated new storage
    expected = (sequences, rows, reference, (bound, kl_bound))
    least, which = ablate(model, tensors, fixture.get("idle", ()), *expected)
    assert least > ABLATION_LEAST, (name, which, least, bound)
    notes = feature_check(model, fixture, *expected)
    references = [(reference, (bound, kl_bound))]
    if not quantized:
        references.insert(0, (half, (FLOAT_BOUND, KL_LEAST)))
    write_expect(os.path.join(OUT, name + ".expect"), sequences, rows, references)
    std = torch.cat([r.reshape(-1) for r in reference]).std().item()
    size = sum(os.path.getsize(os.path.join(OUT, name + e)) for e in (".gguf", ".expect"))
    ties = "" if quantized else f"  with F16 cache {flips:.1e}"
    print(f"{name:16} {size / 1024:6.0f} KiB  std {std:.2f}  f32-f64 {exact:.1e}{ties}  "
          f"bound {bound:.4f}  kl {kl_bound:.1e}  least ablation x{least:.0f} ({which})"
          + (f"  routing x{margin:.1f}" if margin < math.inf else "")
          + "".join("  without " + n for n in notes), flush=True)


def make_stories(data):
    """After the begin token and after the last id: logits with an F16 cache, and nothing else."""
    path = os.path.join(data, "weights", "stories260K")
    model = LlamaForCausalLM.from_pretrained(path, dtype=torch.float32, local_files_only=True,
                                             attn_implementation="eager").eval()
    with open(os.path.join(path, "expected.json"), encoding="utf-8") as f:
        expected = json.load(f)
    ids = expected["ids"]
    told = torch.tensor([expected["logits_after_bos"], expected["logits_last"]])

    def ends(half):  # logits_last are those from which the last id was chosen
        return torch.stack([run(model, ids[:n], half)[0][0, -1] for n in (1, len(ids) - 1)])

    plain, half = ends(False), ends(True)
    model.double()
    flips = (ends(True) - half).abs().max().item()
    assert (plain - told).abs().max() < 1e-4, "transformers and expected.json disagree"
    assert flips < STORY_BOUND, f"stories260K: keys or values too near a tie ({flips:.1e})"
    with open(os.path.join(OUT, "stories260K.logits"), "wb") as f:
        f.write(b"CSTORY01" + half.numpy().astype("<f4").tobytes())
    print(f"stories260K      f16-cache f32-f64 {flips:.1e}  plain-told "
          f"{(plain - told).abs().max().item():.1e}  f16-cache-told "
          + " and ".join(f"{e:.1e}" for e in (half - told).abs().amax(-1).tolist()), flush=True)


def main():
    torch.set_num_threads(1)  # sums in one order, so the files come out the same each time
    os.makedirs(OUT, exist_ok=True)
    wanted = sys.argv[1:]
    if wanted[:1] == ["stories"]:
        make_stories(wanted[1] if len(wanted) > 1 else DATA)
        return
    for fixture in FIXTURES:
        if (not wanted or ("float" in wanted and is_float(fixture))
                or any(fixture["name"].startswith(w) for w in wanted)):
            make(fixture)


if __name__ == "__main__":
    main()
