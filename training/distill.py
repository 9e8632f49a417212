#!/usr/bin/env python3
"""Train a student on a teacher's distribution of every next token (distillation).

As train.py, with all its options, but the loss is a mix: a share for the distance of
the student from the teacher, and the rest for the tokens themselves. With the
student's vocabulary that is the forward Kullback-Leibler divergence of their
distributions, both at a temperature. A teacher with another vocabulary is
asked for the likelihood of stretches of text between common cuts
(teacher.py). The teacher is a checkpoint of ours, a GGUF file, or a folder as
Hugging Face publishes models; `--init` takes a student that prune.py cut out
of a checkpoint.
"""

import torch
import torch.utils.checkpoint
import torch.nn.functional as F
from tokenizers import Tokenizer

import teacher as teachers
import train
from model import mean_loss


def pieces(count, chunk):
    return [slice(begin, begin + chunk) for begin in range(0, count, chunk)]


def mean_divergence(student, table, wanted, chunk, temperature,
                    dtype=torch.float32):
    """temperature^2 KL(teacher || student), the mean over positions.

    student: hidden states [positions, width]; wanted: a function from a slice
    of them to the teacher's logits. Logits exist for `chunk` positions at a
    time, forwards and backwards.
    """
    def part(h, w, piece):
        with torch.no_grad():
            there = F.log_softmax(wanted(piece).float() / temperature, dim=-1)
        logits = (h.to(dtype) @ w.to(dtype).T).float() / temperature
        return F.kl_div(F.log_softmax(logits, dim=-1), there,
                        reduction="sum", log_target=True)
    total = student.new_zeros(())
    for piece in pieces(len(student), chunk):
        total = total + torch.utils.checkpoint.checkpoint(
            part, student[piece], table, piece, use_reentrant=False)
    return total * temperature ** 2 / len(student)


def target_logs(student, table, targets, chunk, dtype=torch.float32):
    """The logarithms of the targets' probabilities, [positions]."""
    def part(h, w, target):
        logs = (h.to(dtype) @ w.to(dtype).T).float().log_softmax(-1)
        return logs.gather(1, target[:, None])[:, 0]
    return torch.cat([torch.utils.checkpoint.checkpoint(
        part, student[piece], table, targets[piece], use_reentrant=False)
        for piece in pieces(len(student), chunk)])


def mean_disagreement(logs, told, temperature):
    """The distance of a student from a teacher for stretches of text: of each,
    temperature^2 KL between "this comes" and "something else comes", with
    probabilities to the power of 1 / temperature; the mean over stretches.

    logs: of the targets of rows [rows, length]; told: teacher.likelihoods().
    """
    if not told:
        return logs.sum() * 0
    row, first, end, wanted = map(torch.tensor, zip(*told))
    # logs[i] is of token i + 1, so before[i] is of all up to token i.
    before = F.pad(logs.double().cumsum(dim=1), (1, 0))
    row, first, end = (i.to(logs.device) for i in (row, first, end))
    # Probabilities within 1e-6 of 1 count as certain.
    mine, there = (x.clamp(max=-1e-6) / temperature for x in (
        before[row, end - 1] - before[row, first - 1],
        wanted.double().to(logs.device)))
    yes = there.exp() * (there - mine)
    no = -there.expm1() * (torch.log(-there.expm1())
                           - torch.log(-mine.expm1()))
    return ((yes + no).mean() * temperature ** 2).to(logs.dtype)


class Distillation(train.Run):
    def __init__(self, args):
        self.teacher = teachers.load(
            args.teacher, Tokenizer.from_file(str(args.tokenizer)),
            args.device)
        if self.teacher.same and self.teacher.context < max(args.rows):
            raise SystemExit(f"{args.teacher}: a context of "
                             f"{self.teacher.context} tokens is shorter than "
                             f"rows of {max(args.rows)}")
        super().__init__(args)

    def soft_loss(self, hidden, tokens, targets, dtype):
        args, table = self.args, self.model.embedding.weight
        hidden = hidden.flatten(0, 1)
        with torch.no_grad(), torch.autocast(
                torch.device(args.device).type, torch.bfloat16,
                enabled=args.bf16):
            if self.teacher.same:
                wanted = self.teacher.logits(tokens)
            else:
                told = self.teacher.likelihoods(
                    torch.cat((tokens, targets[:, -1:]), dim=1))
        if self.teacher.same:
            return mean_divergence(hidden, table, wanted, args.chunk,
                                   args.temperature, dtype)
        logs = target_logs(hidden, table, targets.flatten(), args.chunk, dtype)
        return mean_disagreement(logs.view(targets.shape), told,
                                 args.temperature)

    def gradients(self, tokens, targets):
        args = self.args
        dtype = torch.bfloat16 if args.bf16 else torch.float32
        with torch.autocast(torch.device(args.device).type, torch.bfloat16,
                            enabled=args.bf16):
            hidden = self.hidden(tokens)
        hard = mean_loss(hidden, self.model.embedding.weight, targets,
                         args.chunk, dtype, args.z_loss)
        soft = self.soft_loss(hidden, tokens, targets, dtype)
        loss = args.soft * soft + (1 - args.soft) * hard
        return hard.detach(), torch.autograd.grad(loss, self.parameters)


def main():
    parser = train.arguments(__doc__)
    parser.add_argument("--teacher", type=train.Path, required=True,
                        metavar="PATH", help="a checkpoint (.pt), a GGUF file "
                        "or a folder with a model as Hugging Face has it")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--soft", type=float, default=0.8,
                        help="share of the teacher in the loss")
    train.main(Distillation, parser)


if __name__ == "__main__":
    main()
