#!/usr/bin/env python3
"""Train the model for a given number of minutes, or of tokens.

By the clock a run ends at its time, at a learning rate of zero, however fast
it went; by tokens (--budget) it ends after its tokens, however
busy the machine was. Checkpoints have everything, so
a killed run continues with the same command.
"""

import argparse
import json
import math
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

import checkpoint
import model as decoder
from evaluate import bits_per_byte, held_out
from model import Config, Decoder, mean_loss
from optimizer import optimizers

HERE = Path(__file__).parent


def keep_memory():
    """Start again with a malloc that reuses large blocks, in huge pages.

    Otherwise each logits buffer is mapped, cleared and unmapped every time,
    which costs a fifth of the speed.
    """
    if "GLIBC_TUNABLES" not in os.environ:
        os.environ["GLIBC_TUNABLES"] = ":".join("glibc.malloc." + t for t in (
            "hugetlb=1", "arena_max=1", f"mmap_threshold={32 << 20}",
            f"trim_threshold={8 << 30}", f"top_pad={256 << 20}"))
        os.execv(sys.executable, [sys.executable, *sys.argv])


class Rows:
    """Batches from a file of packed rows, in order, round and round."""

    def __init__(self, folder, row):
        self.row = row
        self.data = np.memmap(folder / f"train_{row}.bin", dtype=np.uint16,
                              mode="r").reshape(-1, row + 1)

    def batch(self, position, tokens, device):
        count = tokens // self.row
        index = (position + np.arange(count)) % len(self.data)
        rows = torch.from_numpy(self.data[index].astype(np.int64)).to(device)
        return rows[:, :-1], rows[:, 1:]


def rate(progress, args):
    """Warm-up, a level stretch, then a straight line to zero."""
    if progress < args.warmup:
        return (progress + 1e-3) / (args.warmup + 1e-3)
    return min(1.0, (1.0 - progress) / max(args.cooldown, 1e-9))


def bfloat16_pays(device):
    """Whether matrix products are faster in bfloat16 here, by measurement.

    Processors differ: by a factor of three on a Zen 4 with AVX512_BF16, and
    the opposite on Xeons that have the instructions, but not AMX.
    """
    if device != "cpu":
        return True

    def seconds(dtype):
        a, b = torch.ones(1024, 256, dtype=dtype), torch.ones(256, 768,
                                                              dtype=dtype)
        best = math.inf
        for _ in range(20):
            began = time.perf_counter()
            a @ b
            best = min(best, time.perf_counter() - began)
        return best
    return 1.2 * seconds(torch.bfloat16) < seconds(torch.float32)


def in_middles(tokens, middle, end):
    """Whether each of [rows, length] tokens is followed by one of a middle.

    The end of a middle, `end`, belongs to it: a model must learn to stop.
    """
    places = torch.arange(1, tokens.shape[1] + 1, device=tokens.device)
    last = [torch.cummax(places * (tokens == t), dim=1).values
            for t in (middle, end)]
    return last[0] > last[1]


def as_q4_0(weight):
    """A matrix as stored in Q4_0, by ggml's reference rule:
    of 32 neighbours the largest becomes -8 times the scale, a half."""
    blocks = weight.reshape(-1, 32)
    largest = blocks.gather(1, blocks.abs().argmax(dim=1, keepdim=True))
    scale = largest / -8
    inverse = torch.where(scale == 0, 0.0, 1 / scale)
    levels = (blocks * inverse + 8.5).floor().clamp(0, 15) - 8
    return (levels * scale.half().float()).view_as(weight)


class Run:
    def __init__(self, args):
        self.args = args
        torch.manual_seed(args.seed)
        self.model = Decoder(Config(
            layers=args.layers, width=args.width, heads=args.heads,
            kv_heads=args.kv_heads, ffn=args.ffn, vocab=args.vocab,
            context=max(args.rows))).to(args.device)
        self.optimizers = optimizers(self.model, args)
        if args.bf16:
            self.optimizers[0].dtype = torch.bfloat16
        self.peaks = [[g["lr"] for g in o.param_groups]
                      for o in self.optimizers]
        self.rows = [Rows(args.tokens, row) for row in args.rows]
        self.positions = [0] * len(self.rows)
        self.step = self.seen = 0
        self.elapsed = 0.0
        self.path = args.out / "checkpoint.pt"
        if self.path.exists():
            self.resume()
        elif args.init:
            self.model.load_state_dict(checkpoint.load(args.init)["weights"])
        vocabulary = Tokenizer.from_file(str(args.tokenizer))
        self.marks = [vocabulary.token_to_id(f"<|{name}|>")
                      for name in ("fim_middle", "endoftext")]
        self.parameters = list(self.model.parameters())
        self.matrices = [p for p in self.model.blocks.parameters()
                         if p.ndim == 2]
        self.compiled = self.model.hidden
        if args.compile:
            self.compiled = torch.compile(self.model.hidden, dynamic=False)
            decoder.logit_loss = torch.compile(decoder.logit_loss,
                                               dynamic=False)
            short = args.device == "cpu"
            for rows in self.rows[:1] if short else self.rows:
                # Before workers share the compiled code.
                self.gradients(*rows.batch(0, max(args.micro, rows.row),
                                           args.device))
        # Workers each run whole micro-batches on one thread: two threads
        # inside every operation would wait for each other at every one, which
        # on a busy machine costs most of the time.
        self.workers = ThreadPoolExecutor(
            args.workers, initializer=torch.set_num_threads, initargs=(1,))
        if args.workers > 1:
            self.optimizers[0].map = self.workers.map
        self.log = open(args.out / "log.jsonl", "a", buffering=1)

    def resume(self):
        state = checkpoint.load(self.path)
        self.model.load_state_dict(state["weights"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"]):
            optimizer.load_state_dict(saved)
        self.positions = state["positions"]
        self.step, self.seen = state["step"], state["seen"]
        self.elapsed = state["elapsed"]

    def save(self):
        checkpoint.save(
            self.path, self.model, positions=self.positions, step=self.step,
            seen=self.seen, elapsed=self.elapsed,
            optimizers=[o.state_dict() for o in self.optimizers])

    def hidden(self, tokens):
        """By compiled code, on a CPU only for the row length of most of a run.

        For rows of 8,192 it took four minutes to compile and won 8 % there.
        """
        compiled = tokens.is_cuda or tokens.shape[1] == self.args.rows[0]
        return (self.compiled if compiled else self.model.hidden)(tokens)

    def gradients(self, tokens, targets):
        """The loss of one micro-batch and its gradients."""
        args = self.args
        dtype = torch.bfloat16 if args.bf16 else torch.float32
        with torch.autocast(torch.device(args.device).type, torch.bfloat16,
                            enabled=args.bf16):
            hidden = self.hidden(tokens)
        shares = 1 + (args.middles - 1) * in_middles(tokens, *self.marks)
        loss = mean_loss(hidden, self.model.embedding.weight, targets,
                         args.chunk, dtype, args.z_loss, shares)
        return loss.detach(), torch.autograd.grad(loss, self.parameters)

    @contextmanager
    def rounded(self, progress):
        """When training for four bits, passes see the blocks' matrices as
        in Q4_0, and gradients update the unrounded ones: the
        straight-through estimator (Bengio et al., arXiv:1308.3432)."""
        if progress < 1 - self.args.four_bits or not self.args.four_bits:
            yield
            return
        whole = [p.detach().clone() for p in self.matrices]
        with torch.no_grad():
            for p in self.matrices:
                p.copy_(as_q4_0(p))
        yield
        with torch.no_grad():
            for p, w in zip(self.matrices, whole):
                p.copy_(w)

    def train_step(self, progress):
        """One optimizer step over a batch of `batch` tokens."""
        args = self.args
        # Short rows are cheap and teach most; the end teaches long context.
        stage = 0 if progress < 1 - args.long_share else -1
        rows = self.rows[stage]
        micro = max(args.micro, rows.row)
        # At least one for each worker, however long the rows.
        parts = max(args.workers, args.batch // micro)
        batches = []
        for _ in range(parts):
            batches.append(rows.batch(self.positions[stage], micro,
                                      args.device))
            self.positions[stage] += micro // rows.row
        total = 0.0
        with self.rounded(progress):
            for loss, grads in self.workers.map(lambda b: self.gradients(*b),
                                                batches):
                total += float(loss) / parts
                for p, grad in zip(self.parameters, grads):
                    grad = grad / parts
                    p.grad = grad if p.grad is None else p.grad.add_(grad)
        torch.nn.utils.clip_grad_norm_(self.parameters, args.clip)
        factor = rate(progress, args)
        for optimizer, peaks in zip(self.optimizers, self.peaks):
            for group, peak in zip(optimizer.param_groups, peaks):
                group["lr"] = peak * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.seen += parts * micro
        return total, factor

    def progress(self):
        """The finished share of the run."""
        if self.args.budget:
            return self.seen / self.args.budget
        return self.elapsed / (self.args.minutes * 60)

    def evaluate(self, tokenizer, docs):
        self.model.eval()
        with self.rounded(self.progress()):
            result = bits_per_byte(self.model, tokenizer, docs,
                                   self.args.rows[0])
        self.model.train()
        return {k: round(v, 4) for k, v in result.items()}

    def loop(self):
        args = self.args
        tokenizer = Tokenizer.from_file(str(args.tokenizer))
        docs = held_out(args.held_out, args.eval_bytes)
        print(f"{self.model.parameter_count():,} parameters, "
              f"{[len(r.data) for r in self.rows]} rows, products in "
              f"{'bfloat16' if args.bf16 else 'float32'}", flush=True)
        began = time.time() - self.elapsed
        saved = evaluated = logged = time.time()
        tokens_logged = self.seen
        while self.progress() < 1:
            loss, factor = self.train_step(self.progress())
            now = time.time()
            self.elapsed = now - began
            if not math.isfinite(loss):
                raise SystemExit(f"the loss is {loss} at step {self.step}")
            if now - logged > args.log_seconds:
                self.note(step=self.step, tokens=self.seen,
                          loss=round(loss, 4), rate=round(factor, 3),
                          minutes=round(self.elapsed / 60, 2),
                          speed=round((self.seen - tokens_logged)
                                      / (now - logged)))
                logged, tokens_logged = now, self.seen
            if now - saved > args.save_minutes * 60:
                self.save()
                saved = now
            if now - evaluated > args.eval_minutes * 60:
                self.note(step=self.step, tokens=self.seen,
                          held_out=self.evaluate(tokenizer, docs))
                evaluated = time.time()
        self.save()
        self.note(step=self.step, tokens=self.seen,
                  held_out=self.evaluate(tokenizer, docs))

    def note(self, **facts):
        line = json.dumps(facts)
        self.log.write(line + "\n")
        print(line, flush=True)


def arguments(description=__doc__):
    parser = argparse.ArgumentParser(
        description=description.split("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--minutes", type=float, default=75)
    add("--budget", type=int, default=0, metavar="TOKENS",
        help="end after this many tokens, whatever the time")
    add("--tokens", type=Path, default=HERE / "work/tokens")
    add("--tokenizer", type=Path, default=HERE / "work/tokenizer.json")
    add("--held-out", type=Path, default=HERE / "work/corpus/held_out.jsonl")
    add("--out", type=Path, default=HERE / "work/run")
    add("--init", type=Path, help="checkpoint whose weights a new run starts with")
    add("--device", default="cpu")
    add("--bf16", action=argparse.BooleanOptionalAction, help="matrix "
        "products in bfloat16, weights, sums and optimizers in float32; "
        "default: if it is faster")
    add("--workers", type=int, default=2, help="micro-batches at a time")
    add("--vocab", type=int, default=8192)
    add("--width", type=int, default=256)
    add("--layers", type=int, default=3)
    add("--heads", type=int, default=4)
    add("--kv-heads", type=int, default=2)
    add("--ffn", type=int, default=768)
    add("--rows", type=int, nargs="+", default=[512, 1024],
        help="row lengths: the first for most of the run, the last at its end")
    add("--long-share", type=float, default=0.15,
        help="share of the run that trains on the last row length")
    add("--batch", type=int, default=4096, help="tokens per step, "
        "at least a row for each worker")
    add("--micro", type=int, default=1024, help="tokens per forward pass, "
        "at least a row")
    add("--chunk", type=int, default=256, help="positions whose logits "
        "exist at once")
    add("--matrix-lr", type=float, default=0.012, help="Muon's rate")
    add("--lr", type=float, default=0.001, help="AdamW's rate")
    add("--weight-decay", type=float, default=0.1)
    add("--warmup", type=float, default=0.02, help="share of the run")
    add("--cooldown", type=float, default=0.5, help="share of the run")
    add("--clip", type=float, default=1.0)
    add("--middles", type=float, default=1.0, help="weight in the loss of "
        "the tokens that fill holes; of all others 1")
    add("--z-loss", type=float, default=0.0, help="share of the squared "
        "normalizer of the logits in the loss; 1e-4 for --bf16")
    add("--four-bits", type=float, default=0.0, metavar="SHARE", help="of the "
        "run, at its end, that learns to be rounded to Q4_0 "
        "(export_gguf.py --type q4_0)")
    add("--seed", type=int, default=1)
    add("--compile", action=argparse.BooleanOptionalAction, default=True)
    add("--save-minutes", type=float, default=4)
    add("--eval-minutes", type=float, default=12)
    add("--eval-bytes", type=int, default=60_000, help="of each language")
    add("--log-seconds", type=float, default=20)
    return parser


def main(kind=Run, parser=None):
    args = (parser or arguments()).parse_args()
    keep_memory()
    torch.set_num_threads(1)
    if args.bf16 is None:
        args.bf16 = bfloat16_pays(args.device)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "pid").write_text(str(os.getpid()))
    kind(args).loop()


if __name__ == "__main__":
    main()
