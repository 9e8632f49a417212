"""Run a model: its logits, those that an engine with int8 activations and an F16 KV cache would
compute, and how far the two are from each other and from float64."""
import math

import numpy as np
import torch
from transformers import DynamicCache

import families
from gguf_file import N_VOCAB
from model_list import LONG

ACT_GROUP = 128       # activations: int8, one scale for this many values along K


class HalfCache(DynamicCache):
    """K and V are rounded to F16."""

    def update(self, key_states, value_states, *args, **kwargs):
        return super().update(key_states.half().to(key_states.dtype),
                              value_states.half().to(value_states.dtype), *args, **kwargs)


def fake_quantize(x):
    """int8, scale amax/127 for each token and ACT_GROUP values of K, nearest even."""
    k = x.shape[-1]
    pad = -k % ACT_GROUP
    g = torch.nn.functional.pad(x, (0, pad))
    g = g.reshape(*x.shape[:-1], (k + pad) // ACT_GROUP, ACT_GROUP)
    scale = g.abs().amax(-1, keepdim=True) / 127.0
    q = torch.round(g / torch.where(scale == 0, 1.0, scale)) * scale
    return q.reshape(*x.shape[:-1], k + pad)[..., :k]


def quantized_experts(experts, gpt_oss):
    def forward(x, index, weights):
        out = torch.zeros_like(x)
        xq = fake_quantize(x)
        for e in range(experts.num_experts):
            token, slot = torch.where(index == e)
            if gpt_oss:
                a = xq[token] @ experts.gate_up_proj[e] + experts.gate_up_proj_bias[e]
                h = fake_quantize(experts._apply_gate(a))
                y = h @ experts.down_proj[e] + experts.down_proj_bias[e]
            else:
                g, u = (xq[token] @ experts.gate_up_proj[e].T).chunk(2, -1)
                y = fake_quantize(experts.act_fn(g) * u) @ experts.down_proj[e].T
            out.index_add_(0, token, y * weights[token, slot, None])
        return out
    return forward


class Simulated:
    """Inside this context, the model's linear layers get int8 activations."""

    def __init__(self, model, active):
        self.model, self.active, self.hooks, self.experts = model, active, [], []

    def __enter__(self):
        if not self.active:
            return
        for m in self.model.modules():
            if isinstance(m, torch.nn.Linear):
                self.hooks.append(m.register_forward_pre_hook(
                    lambda _m, args: (fake_quantize(args[0]),)))
            elif type(m).__name__ in ("Qwen3MoeExperts", "GptOssExperts"):
                m.forward = quantized_experts(m, type(m).__name__ == "GptOssExperts")
                self.experts.append(m)

    def __exit__(self, *_):
        for hook in self.hooks:
            hook.remove()
        for m in self.experts:
            del m.forward


@torch.no_grad()
def run(model, tokens, half=False):
    """Logits of a batch of sequences, and the router logits of each MoE layer."""
    routers, hooks = [], []
    for m in model.modules():
        if type(m).__name__.lower().endswith("router"):
            hooks.append(m.register_forward_hook(lambda router, args, out: routers.append(
                families.choice_scores(router, out[0], args))))
    ids = torch.tensor(tokens).reshape(-1, np.shape(tokens)[-1])
    config = model.config if "linear_attention" in (getattr(model.config, "layer_types", None)
                                                    or ()) else None
    cache = HalfCache(config=config) if half else DynamicCache(config=config)
    logits = model(ids, past_key_values=cache, use_cache=True).logits
    for hook in hooks:
        hook.remove()
    return logits, [r.reshape(*ids.shape, -1) for r in routers]


def in_groups(scores, config):
    """Scores with -inf outside the chosen groups, and the distance of the last of these to the
    next group."""
    n, used = getattr(config, "n_group", 1), getattr(config, "topk_group", 1)
    if n == used:
        return scores, torch.full(scores.shape[:-1], math.inf)
    groups = scores.reshape(*scores.shape[:-1], n, -1)
    n_best = 1 if config.model_type == "deepseek_v2" else 2
    sums = torch.topk(groups, n_best, -1).values.sum(-1)
    best = torch.topk(sums, used + 1, -1)
    mask = torch.zeros_like(sums).scatter(-1, best.indices[..., :used], 1.0)
    masked = groups.masked_fill(mask[..., None] == 0, -math.inf).reshape(scores.shape)
    return masked, best.values[..., used - 1] - best.values[..., used]


def router_gaps(routers, config):
    """[batch][tokens]: least distance, over layers, of the last chosen expert or group to the
    next."""
    gaps = []
    numbers = [one["num_experts_per_tok"] for one in getattr(config, "block_configs", [])
               if "num_experts_per_tok" in one]
    for scores, k in zip(routers, numbers or [families.n_chosen(config)] * len(routers)):
        scores, gap = in_groups(scores, config)
        if k == scores.shape[-1]:  # there is no choice
            gaps.append(torch.full_like(scores[..., 0], math.inf))
            continue
        best = torch.topk(scores, k + 1, -1).values
        gaps += [best[..., k - 1] - best[..., k], gap]
    return torch.stack(gaps).amin(0)


def choose_tokens(model, n, rng):
    """Random tokens; in a mixture of experts, chosen so that no choice of experts is close."""
    k = families.n_chosen(model.config)
    if k is None or k == getattr(model.config, "n_routed_experts", 0):  # there is no choice
        return rng.integers(0, N_VOCAB, n).tolist()
    chosen = []
    for _ in range(n):
        n_trials = 40 if n <= LONG else 8
        trial = [chosen + [t] for t in rng.integers(0, N_VOCAB, n_trials).tolist()]
        gaps = router_gaps(run(model, trial)[1], model.config)[:, -1]
        chosen = trial[int(gaps.argmax())]
    return chosen


def kl_rows(ref, got):
    p = torch.log_softmax(ref.double(), -1)
    q = torch.log_softmax(got.double(), -1)
    return (p.exp() * (p - q)).sum(-1)


def simulate(model, sequences, rows, reference, quantized, routers):
    """Logits of the simulated engine, their largest error and KL, and routing's safety margin."""
    simulated, error, kl = [], 0.0, 0.0
    margin = math.inf
    with Simulated(model, quantized):
        for s, r, ref, gates in zip(sequences, rows, reference, routers):
            logits, got = run(model, s, half=True)
            simulated.append(logits[0])
            error = max(error, (logits[0, r:] - ref[r:]).abs().max().item())
            kl = max(kl, kl_rows(ref[r:], logits[0, r:]).max().item())
            if gates:
                moved = max((a - b).abs().max().item() for a, b in zip(gates, got))
                margin = min(margin, router_gaps(gates, model.config).min().item() / (2 * moved))
    return simulated, error, kl, margin


def float64_error(model, sequences, rows, reference, half=False):
    """The distance of float64 from the reference; with half, the cost of flipped roundings."""
    model.double()
    error = max((run(model, s, half)[0][0, r:] - ref[r:]).abs().max().item()
                for s, r, ref in zip(sequences, rows, reference))
    model.float()
    return error
