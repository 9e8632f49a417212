"""A Qwen3-shaped decoder: what GGUF and its engines call arch `qwen3`.

RMSNorm, grouped-query attention with a norm over each query and key head,
rotary positions over the two halves of a head (NEOX), SwiGLU, no biases, the
embedding table used again as the output.
"""

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    vocab: int = 8192
    width: int = 256
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    ffn: int = 768
    context: int = 1024
    rope_base: float = 100_000.0
    norm_eps: float = 1e-6

    def as_dict(self):
        return asdict(self)


class Norm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.weight.to(x.dtype),
                          self.eps)


def rotation(config, length):
    """cos and sin of every position's angles, [length, head_dim / 2]."""
    half = torch.arange(0, config.head_dim, 2) / config.head_dim
    angles = torch.outer(torch.arange(length), config.rope_base ** -half)
    return angles.cos(), angles.sin()


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


QUERIES = 256  # query positions per block on a CPU


def attend(q, k, v):
    """Causal attention, [batch, heads, length, head_dim].

    On a CPU torch's kernel has a fifth of the speed of its matrix
    products, so there blocks of queries are plain products with the keys
    that they may see.
    """
    if q.is_cuda:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    q = q * q.shape[-1] ** -0.5
    mixed = []
    for begin in range(0, q.shape[2], QUERIES):
        rows = q[:, :, begin:begin + QUERIES].to(v.dtype)
        end = begin + rows.shape[2]
        scores = rows @ k[:, :, :end].to(v.dtype).mT
        later = torch.ones(scores.shape[2:], dtype=torch.bool,
                           device=q.device).triu(begin + 1)
        shares = scores.float().masked_fill(later, -torch.inf).softmax(-1)
        mixed.append(shares.to(v.dtype) @ v[:, :, :end])
    return torch.cat(mixed, dim=2)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.q = nn.Linear(c.width, c.heads * c.head_dim, bias=False)
        self.k = nn.Linear(c.width, c.kv_heads * c.head_dim, bias=False)
        self.v = nn.Linear(c.width, c.kv_heads * c.head_dim, bias=False)
        self.output = nn.Linear(c.heads * c.head_dim, c.width, bias=False)
        self.q_norm = Norm(c.head_dim, c.norm_eps)
        self.k_norm = Norm(c.head_dim, c.norm_eps)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape

        def split(projected):
            return projected.view(batch, length, -1,
                                  self.c.head_dim).transpose(1, 2)
        q = rotate(self.q_norm(split(self.q(x))), cos, sin)
        k = rotate(self.k_norm(split(self.k(x))), cos, sin)
        v = split(self.v(x))
        group = self.c.heads // self.c.kv_heads
        k = k.repeat_interleave(group, dim=1)
        v = v.repeat_interleave(group, dim=1)
        mixed = attend(q, k, v)
        return self.output(mixed.transpose(1, 2).reshape(batch, length, -1))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attention_norm = Norm(c.width, c.norm_eps)
        self.attention = Attention(c)
        self.ffn_norm = Norm(c.width, c.norm_eps)
        self.gate = nn.Linear(c.width, c.ffn, bias=False)
        self.up = nn.Linear(c.width, c.ffn, bias=False)
        self.down = nn.Linear(c.ffn, c.width, bias=False)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.attention_norm(x), cos, sin)
        h = self.ffn_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.width)
        self.blocks = nn.ModuleList(Block(config)
                                    for _ in range(config.layers))
        self.output_norm = Norm(config.width, config.norm_eps)
        nn.init.normal_(self.embedding.weight, std=0.02)
        for block in self.blocks:
            for name, weight in block.named_parameters():
                if weight.ndim == 2:
                    nn.init.normal_(weight, std=weight.shape[1] ** -0.5 / 2)
            # Each block starts as the identity: quicker at small sizes.
            nn.init.zeros_(block.attention.output.weight)
            nn.init.zeros_(block.down.weight)
        cos, sin = rotation(config, config.context)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def hidden(self, tokens):
        """The normed last layer, [batch, length, width]."""
        length = tokens.shape[1]
        cos, sin = self.cos[:length], self.sin[:length]
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.output_norm(x)

    def logits(self, tokens):
        return self.hidden(tokens) @ self.embedding.weight.T

    def parameter_count(self):
        return sum(p.numel() for p in self.parameters())


def mean_loss(hidden, weight, targets, chunk, dtype=torch.float32, z=0.0,
              shares=None):
    """Mean cross-entropy in nats, computed `chunk` positions at a time.

    With `shares`, of the targets' shape, a mean weighted by them.
    With `z`, plus z times the mean square of the logits' normalizer,
    which keeps it near zero where products are in bfloat16.

    `dtype` is the type of the matrix products; the softmax and the
    sums stay in float32.
    """
    if shares is None:
        shares = torch.ones_like(targets, dtype=torch.float32)
    shares = (shares / shares.sum()).flatten()
    return ChunkedLoss.apply(hidden.flatten(0, 1), weight, targets.flatten(),
                             chunk, dtype, z, shares)


def logit_loss(logits, target, share, z):
    """The summed loss of rows of logits, and its gradient in their type."""
    logs = logits.float()
    normalizer = logs.logsumexp(dim=-1, keepdim=True)
    logs = logs - normalizer
    total = (share * (z * normalizer.square() - logs.gather(1, target))).sum()
    gradient = logs.exp() * (1 + 2 * z * normalizer)
    hit = torch.arange(logs.shape[1], device=logs.device) == target
    return total, (share * (gradient - hit.float())).to(logits.dtype)


class ChunkedLoss(torch.autograd.Function):
    """Cross-entropy over a large vocabulary without keeping the logits.

    The gradients are made beside the loss, while a chunk's logits are still
    in the cache; all positions at once would stream gigabytes through memory.
    """

    @staticmethod
    def forward(ctx, h, weight, targets, chunk, dtype, z, shares):
        total = weight.new_zeros(())
        dh = torch.empty_like(h)
        dweight = torch.zeros_like(weight)
        table = weight.to(dtype)
        for begin in range(0, len(h), chunk):
            part = h[begin:begin + chunk].to(dtype)
            loss, gradient = logit_loss(
                part @ table.T, targets[begin:begin + chunk, None],
                shares[begin:begin + chunk, None], z)
            total += loss
            dh[begin:begin + chunk] = gradient @ table
            if dtype == dweight.dtype:
                dweight.addmm_(gradient.T, part)
            else:
                dweight += gradient.T @ part
        ctx.save_for_backward(dh, dweight)
        return total

    @staticmethod
    def backward(ctx, grad):
        dh, dweight = ctx.saved_tensors
        return grad * dh, grad * dweight, None, None, None, None, None
