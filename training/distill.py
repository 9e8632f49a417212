#!/usr/bin/env python3
"""Train a student on what a teacher thinks of every next token.

As train.py, with all its options, but the loss is a mix: a share of the
forward Kullback-Leibler divergence between the teacher's and the student's
distributions, both at a temperature, and the rest the tokens themselves. The
teacher is a checkpoint of ours with the same vocabulary; `--init` takes a
student that prune.py cut out of it.
"""

import torch
import torch.utils.checkpoint
import torch.nn.functional as F

import checkpoint
import train
from model import mean_loss


def mean_divergence(student, table, teacher, teacher_table, chunk,
                    temperature, dtype=torch.float32):
    """temperature^2 KL(teacher || student), the mean over positions.

    student, teacher: hidden states [positions, width], of any two widths.
    Logits exist for `chunk` positions at a time, forwards and backwards.
    """
    def part(h, w, t):
        with torch.no_grad():
            wanted = F.log_softmax((t.to(dtype) @ teacher_table.to(dtype).T)
                                   .float() / temperature, dim=-1)
        logits = (h.to(dtype) @ w.to(dtype).T).float() / temperature
        return F.kl_div(F.log_softmax(logits, dim=-1), wanted,
                        reduction="sum", log_target=True)
    total = student.new_zeros(())
    for begin in range(0, len(student), chunk):
        piece = slice(begin, begin + chunk)
        total = total + torch.utils.checkpoint.checkpoint(
            part, student[piece], table, teacher[piece], use_reentrant=False)
    return total * temperature ** 2 / len(student)


class Distillation(train.Run):
    def __init__(self, args):
        self.teacher = checkpoint.load_model(args.teacher).to(args.device)
        if self.teacher.config.vocab != args.vocab:
            raise SystemExit(f"{args.teacher}: {self.teacher.config.vocab} "
                             f"tokens, the student has {args.vocab}")
        if self.teacher.config.context < max(args.rows):
            raise SystemExit(f"{args.teacher}: a context of "
                             f"{self.teacher.config.context} tokens is "
                             f"shorter than rows of {max(args.rows)}")
        self.teacher.requires_grad_(False)
        super().__init__(args)

    def gradients(self, tokens, targets):
        args = self.args
        dtype = torch.bfloat16 if args.bf16 else torch.float32
        with torch.autocast(torch.device(args.device).type, torch.bfloat16,
                            enabled=args.bf16):
            hidden = self.hidden(tokens)
            with torch.no_grad():
                thought = self.teacher.hidden(tokens)
        table = self.model.embedding.weight
        hard = mean_loss(hidden, table, targets, args.chunk, dtype,
                         args.z_loss)
        soft = mean_divergence(
            hidden.flatten(0, 1), table, thought.flatten(0, 1),
            self.teacher.embedding.weight, args.chunk, args.temperature,
            dtype)
        loss = args.soft * soft + (1 - args.soft) * hard
        return hard.detach(), torch.autograd.grad(loss, self.parameters)


def main():
    parser = train.arguments(__doc__)
    parser.add_argument("--teacher", type=train.Path, required=True)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--soft", type=float, default=0.8,
                        help="share of the teacher's distribution in the loss")
    train.main(Distillation, parser)


if __name__ == "__main__":
    main()
