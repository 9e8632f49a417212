#!/usr/bin/env python3
"""Checks of the training code on models of a few thousand weights: seconds.

    python test_training.py
"""

import copy
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import gguf
import torch
import torch.nn.functional as F

import checkpoint
import distill
import export_gguf
import grow
import import_gguf
import pass_rate
import teacher
from model import QUERIES, Config, Decoder, attend, mean_loss
from optimizer import optimizers, orthogonal
from pack import Packer
from prune import Seen, kept_layers, pruned
from tokenizer import train as train_tokenizer
from train import Run, as_q4_0, in_middles

SMALL = Config(vocab=97, width=32, layers=3, heads=2, kv_heads=1, head_dim=16,
               ffn=48, context=64)


def random_model(config=SMALL, seed=1):
    torch.manual_seed(seed)
    model = Decoder(config)
    for p in model.parameters():
        if p.ndim == 2:
            torch.nn.init.normal_(p, std=p.shape[1] ** -0.5)
    return model.eval()


def text(rows=4, length=48, seed=2):
    torch.manual_seed(seed)
    return torch.randint(0, SMALL.vocab, (rows, length))


def close(a, b, by=1e-5):
    return torch.allclose(a, b, atol=by, rtol=1e-4)


def test_loss_is_autograds():
    model, ids = random_model(), text()
    hidden = model.hidden(ids[:, :-1]).detach().requires_grad_()
    table = model.embedding.weight.detach().requires_grad_()
    logits = (hidden @ table.T).flatten(0, 1)
    plain = (F.cross_entropy(logits, ids[:, 1:].flatten())
             + 0.01 * logits.logsumexp(-1).square().mean())
    want = torch.autograd.grad(plain, (hidden, table), retain_graph=True)
    ours = mean_loss(hidden, table, ids[:, 1:], chunk=13, z=0.01)
    got = torch.autograd.grad(ours, (hidden, table))
    assert close(ours, plain) and all(map(close, got, want))
    shares = torch.rand(ids[:, 1:].shape)
    each = (F.cross_entropy(logits, ids[:, 1:].flatten(), reduction="none")
            + 0.01 * logits.logsumexp(-1).square())
    plain = (each * shares.flatten()).sum() / shares.sum()
    want = torch.autograd.grad(plain, (hidden, table))
    ours = mean_loss(hidden, table, ids[:, 1:], chunk=13, z=0.01,
                     shares=shares)
    got = torch.autograd.grad(ours, (hidden, table))
    assert close(ours, plain) and all(map(close, got, want))


def test_attention_is_torchs():
    """Over several blocks of queries, the last one short."""
    torch.manual_seed(5)
    q, k, v = (torch.randn(2, 3, 2 * QUERIES + 37, 16, requires_grad=True)
               for _ in range(3))
    want = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    got = attend(q, k, v)
    weight = torch.randn_like(want)
    assert close(got, want)
    assert all(map(close, torch.autograd.grad((got * weight).sum(), (q, k, v)),
                   torch.autograd.grad((want * weight).sum(), (q, k, v))))


def test_directions_are_orthogonal():
    """In bfloat16 as in float32, wide and tall; one of all rows the same."""
    torch.manual_seed(6)
    for shape in ((2, 24, 40), (2, 40, 24)):
        batch = torch.randn(shape)
        for dtype in (torch.float32, torch.bfloat16):
            x = orthogonal(batch, dtype=dtype)
            values = torch.linalg.svdvals(x)
            assert x.dtype == batch.dtype
            assert values.min() > 0.5 and values.max() < 1.4, values
    x = orthogonal(torch.ones(1, 8, 8), dtype=torch.bfloat16)
    assert torch.linalg.svdvals(x)[0, 1] < 0.1


def test_middles_are_found():
    """From after the mark to the end, over two examples and plain text."""
    middle, end = 3, 0
    row = torch.tensor([[7, 0, 1, 7, 2, 7, 3, 8, 8, 0, 7, 1, 2, 3, 8, 0, 7]])
    found = in_middles(row, middle, end)[0].nonzero().flatten().tolist()
    assert found == [6, 7, 8, 13, 14], found


def test_divergence_is_autograds():
    wide = Config(**{**SMALL.as_dict(), "width": 48})
    knows, student, ids = random_model(wide, 3), random_model(), text()
    h = student.hidden(ids).flatten(0, 1).detach().requires_grad_()
    table = student.embedding.weight.detach().requires_grad_()
    logits = teacher.Checkpoint(knows, "cpu").logits(ids)
    wanted = (knows.logits(ids).flatten(0, 1) / 2).softmax(-1)
    logs = (h @ table.T / 2).log_softmax(-1)
    plain = 4 * (wanted * (wanted.log() - logs)).sum(-1).mean()
    want = torch.autograd.grad(plain, (h, table))
    ours = distill.mean_divergence(h, table, logits, 11, 2.0)
    got = torch.autograd.grad(ours, (h, table))
    assert close(ours, plain) and all(map(close, got, want))
    same = distill.mean_divergence(
        knows.hidden(ids).flatten(0, 1), knows.embedding.weight, logits, 11,
        2.0)
    assert abs(same.item()) < 1e-5


def test_pruning_keeps_what_works():
    """Channels and a layer without effect can be removed exactly."""
    model, ids = random_model(), text()
    whole = copy.deepcopy(model)
    seen = Seen(model)
    with torch.no_grad():
        want = model.logits(ids)
        same = pruned(model, seen, 3, 48, 32)
        assert close(same.logits(ids), want)
        for block in whole.blocks:  # 16 channels of the feed-forward
            block.gate.weight[::3] = 0
        silent = whole.blocks[1]
        silent.attention.output.weight.zero_()
        silent.down.weight.zero_()
        want = whole.logits(ids)
        seen = Seen(whole)
        whole.logits(ids)
        assert kept_layers(seen, 2) == [0, 2]
        small = pruned(whole, seen, 2, 32, 32)
        assert small.parameter_count() < whole.parameter_count() * 0.75
        assert close(small.logits(ids), want)


def test_growing_changes_nothing():
    """More layers and columns, the same logits, and all of them learn."""
    model, ids = random_model(), text()
    large = grow.larger(model, {0, 2}, 64)
    assert large.config.layers == 5 and large.config.ffn == 64
    assert close(large.logits(ids), model.logits(ids))
    for _ in range(2):  # weights after a zero have no gradient until it changes
        large.zero_grad()
        large.logits(ids).logsumexp(-1).mean().backward()
        with torch.no_grad():
            for p in large.parameters():
                p -= 0.01 * p.grad
    still = [n for n, p in large.named_parameters() if not p.grad.any()]
    assert not still, still
    columns = large.blocks[0].gate.weight.grad[48:]
    assert columns.any(dim=1).all()


def test_narrow_models_come_close():
    """Width with little content can be removed with little change."""
    model, ids = random_model(), text()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("embedding.weight"):
                p[:, 24:] *= 1e-4
            elif name.endswith(("output.weight", "down.weight")):
                p[24:] *= 1e-4
        want = model.logits(ids)
        seen = Seen(model)
        model.logits(ids)
        small = pruned(model, seen, 3, 48, 24)
        alike = F.cosine_similarity(small.logits(ids), want, dim=-1)
    assert alike.min() > 0.999, alike.min()


def student_of(teacher, vocab, seed=6):
    """A run of distill.py without its data, and its optimizer."""
    run = distill.Distillation.__new__(distill.Distillation)
    run.args = SimpleNamespace(
        device="cpu", bf16=False, chunk=16, z_loss=1e-4, temperature=1.0,
        soft=0.8, matrix_lr=0.02, lr=0.01, weight_decay=0.0)
    run.teacher = teacher
    run.model = random_model(Config(**{**SMALL.as_dict(), "layers": 1,
                                       "context": 128, "vocab": vocab}), seed)
    run.hidden = run.model.hidden
    run.parameters = list(run.model.parameters())
    return run, optimizers(run.model, run.args)


def comes_nearer(run, steps, ids, count=30):
    """The student's distance from its teacher before and after some steps."""
    def apart():
        with torch.no_grad():
            return run.soft_loss(run.hidden(ids[:, :-1]), ids[:, :-1],
                                 ids[:, 1:], torch.float32).item()
    before = apart()
    for _ in range(count):
        _, grads = run.gradients(ids[:, :-1], ids[:, 1:])
        for p, grad in zip(run.parameters, grads):
            p.grad = grad
        for step in steps:
            step.step()
    return before, apart()


def test_distillation_learns_the_teacher():
    """A student of another shape comes nearer to the teacher."""
    model = random_model(seed=5)
    run, steps = student_of(teacher.Checkpoint(model, "cpu"), SMALL.vocab)
    before, after = comes_nearer(run, steps, text(8))
    assert after < 0.7 * before, (before, after)


CODE = "".join(f"def f{i}(x, y):\n    z = x * {i}\n\n    return (z, y)\n"
               for i in range(12))


def exported(folder, entries, **more):
    """A model with a vocabulary of its own, as a GGUF file."""
    vocabulary = train_tokenizer([CODE], entries)
    vocabulary.save(str(folder / "tokenizer.json"))
    model = random_model(Config(**{
        **SMALL.as_dict(), "vocab": vocabulary.get_vocab_size(),
        "rope_base": 5000.0, "context": 512, **more}))
    checkpoint.save(folder / "a.pt", model)
    subprocess.run([sys.executable, export_gguf.__file__, "a.pt", "a.gguf",
                    "--type", "f16", "--tokenizer", "tokenizer.json"],
                   cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return vocabulary, model


def test_gguf_and_back():
    """An exported file gives its checkpoint back."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _, model = exported(folder, 280)
        subprocess.run([sys.executable, import_gguf.__file__, "a.gguf",
                        "b.pt"], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)
        back = checkpoint.load_model(folder / "b.pt")
    assert back.config == model.config, back.config
    ids = torch.arange(60)[None]
    assert close(back.logits(ids), model.logits(ids), 0.05)
    for name, p in model.named_parameters():
        assert close(back.state_dict()[name], p, 1e-3), name


def rows_of(vocabulary, count, length):
    """Rows of tokens of code with marks and characters of several bytes;
    they begin and end anywhere."""
    ids = []
    for i in range(count):
        ids += vocabulary.encode(f"<|file_sep|>d\u00e9f{i}.py\n\u20ac = {i}\n"
                                 + CODE[i:] + "<|endoftext|>").ids
    return torch.tensor(ids[5:5 + count * length]).view(count, length)


def test_teachers_of_any_kind():
    """transformers' logits of a file equal ours; with its vocabulary treated as
    another one, every token is a stretch, except where several make a character,
    and all likelihoods are equal."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # transformers assumes heads of 128 columns for any such file.
        vocabulary, _ = exported(folder, 290, head_dim=128)
        own = teacher.load(folder / "a.gguf", vocabulary, "cpu")
        other = teacher.HuggingFace(folder / "a.gguf", vocabulary, "cpu")
    assert isinstance(own, teacher.Checkpoint) and other.same
    rows, everything = rows_of(vocabulary, 4, 90), slice(None)
    logits = own.logits(rows[:, :-1])(everything)
    assert close(other.logits(rows[:, :-1])(everything), logits, 0.02)
    told = other.likelihoods(rows)
    assert len(told) > 0.9 * rows[:, 1:].numel(), len(told)
    logs = logits.log_softmax(-1).gather(1, rows[:, 1:].flatten()[:, None])
    logs = logs.view(4, -1)
    for row, first, end, likelihood in told:
        said = vocabulary.decode(rows[row, first:end].tolist())
        assert end == first + 1 or len(said) == 1, said
        assert abs(logs[row, first - 1:end - 1].sum() - likelihood) < 0.05
    assert distill.mean_disagreement(logs, told, 1.0) < 1e-5
    assert distill.mean_disagreement(logs - 0.5, told, 1.0) > 1e-4


def test_teachers_of_another_vocabulary():
    """Stretches have the same bytes in both vocabularies, their
    likelihoods are sums of the teacher's own, and a student comes nearer."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        exported(folder, 400, head_dim=128)
        vocabulary = train_tokenizer([CODE[:300]], 280)
        other = teacher.load(folder / "a.gguf", vocabulary, "cpu")
    assert not other.same
    rows, reader = rows_of(vocabulary, 4, 90), other.reader
    n_long = 0
    for row in rows.tolist():
        mine = reader.ends(row)
        for ids, ends in other.contexts(row):
            for a, b, c, d in teacher.stretches(mine, ends):
                said = vocabulary.decode(row[a:b], skip_special_tokens=False)
                assert said == other.tokenizer.decode(ids[c:d]), said
                n_long += b - a > 1
    assert n_long > 10, n_long
    run, steps = student_of(other, vocabulary.get_vocab_size())
    logs = run.model.logits(rows[:, :-1]).log_softmax(-1).gather(
        2, rows[:, 1:, None])[..., 0]
    chunked = distill.target_logs(
        run.hidden(rows[:, :-1]).flatten(0, 1), run.model.embedding.weight,
        rows[:, 1:].flatten(), 16)
    assert close(chunked.view(logs.shape), logs, 1e-5)
    told = other.likelihoods(rows)
    by_hand = []
    for row, first, end, likelihood in told:
        p = torch.tensor(likelihood).exp()
        q = logs[row, first - 1:end - 1].sum().exp()
        by_hand.append(p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log())
    assert close(distill.mean_disagreement(logs, told, 1.0),
                 torch.stack(by_hand).mean(), 1e-3)
    run.args.soft = 1.0  # likely tokens are not those of a random teacher
    before, after = comes_nearer(run, steps, rows)
    assert after < 0.7 * before, (before, after)


def test_four_bits_are_the_files():
    """Passes see the weights as a reader decodes them from the file; within the passes,
    and only then."""
    kind = gguf.GGMLQuantizationType.Q4_0
    weight = torch.randn(24, 64, generator=torch.Generator().manual_seed(3))
    weight[3, :32] = 0
    weight[4, :32] *= 1e-6
    there = gguf.quants.dequantize(gguf.quants.quantize(weight.numpy(), kind),
                                   kind)
    assert (as_q4_0(weight).numpy() == there).all()
    run = SimpleNamespace(args=SimpleNamespace(four_bits=0.25),
                          matrices=[torch.nn.Parameter(weight.clone())])
    for progress, rounds in ((0.7, False), (0.8, True), (1.0, True)):
        with Run.rounded(run, progress):
            seen = run.matrices[0].detach().clone()
        assert torch.equal(seen, as_q4_0(weight) if rounds else weight)
        assert torch.equal(run.matrices[0], weight)
    run.args.four_bits = 0
    with Run.rounded(run, 1.0):
        assert torch.equal(run.matrices[0], weight)


def test_holes_are_where_cursors_stand():
    """Prefix, middle and suffix are the text; no middle is blank, and it
    begins where a token of the text does."""
    vocabulary = train_tokenizer([CODE], 280)
    packer = Packer(vocabulary, 3, 512, SimpleNamespace())
    token, begins = packer.token, {"line": 0, "end": 0, "indent": 0}
    within = whole = 0
    hole_of, cursors = packer.hole, []
    packer.hole = lambda text: cursors.append(hole_of(text)) or cursors[-1]
    draw = random.Random(4)
    for _ in range(400):
        start = draw.randrange(40)
        piece = CODE[CODE.find("\n", start) + 1:][:300]
        ids = packer.example([], piece)
        assert ids[0] == token["fim_suffix"] and ids[-1] == token["endoftext"]
        prefix, middle = (ids.index(token[t]) for t in ("fim_prefix",
                                                        "fim_middle"))
        after, before, hole = (vocabulary.decode(part) for part in (
            ids[1:prefix], ids[prefix + 1:middle], ids[middle + 1:-1]))
        assert before + hole + after == piece
        assert hole.strip()
        cursor, end = cursors[-1]
        opening = packer.opening(piece[:cursor])
        assert before == piece[:cursor - opening] and after == piece[end:]
        begins["end"] += piece[cursor] == "\n"
        begins["line"] += piece[:cursor][-1:] in ("\n", "")
        begins["indent"] += re.search(r"\n +$", piece[:cursor]) is not None
        if before and not before.endswith("\n"):
            within += 1
            whole += (ids[prefix + 1:middle] + ids[middle + 1:-1]
                      == vocabulary.encode(before + hole).ids)
    assert min(begins.values()) > 20, begins
    assert whole > 0.7 * within > 90, (whole, within)


def test_mix():
    """Each language fills its part of the limit, unnamed ones get nothing."""
    vocabulary = train_tokenizer([CODE], 280)
    docs = [{"language": language, "path": f"{n}.x", "package": "p",
             "text": f"{language} {n}\n" + CODE}
            for language in ("python", "rust", "go") for n in range(40)]
    packer = Packer(vocabulary, 3, 128, SimpleNamespace(
        limit=12000, mix={"python": 3, "rust": 1}, fim_share=0.5,
        header_share=0, neighbours=0))
    spent = {"python": 0, "rust": 0, "go": 0}
    plain, example = packer.plain, packer.example
    language = None

    def told(doc):
        nonlocal language
        language = doc["language"]
        return []

    def counted(make):
        def tokens(*of):
            made = make(*of)
            if make == example and len(made) > 129:  # that fits no row
                return made
            spent[language] += len(made)
            return made
        return tokens

    packer.header = told
    packer.plain, packer.example = counted(plain), counted(example)
    packer.pack(docs)
    longest = len(vocabulary.encode(CODE).ids) * 2
    assert spent["go"] == 0, spent
    assert 9000 <= spent["python"] < 9000 + longest, spent
    assert 3000 <= spent["rust"] < 3000 + longest, spent


def test_neighbours():
    """After another file of the same package, whole examples that fit."""
    vocabulary = train_tokenizer([CODE], 280)
    docs = [{"language": "python", "path": f"{package}/{n}.py",
             "package": package, "text": CODE[:200]}
            for package in ("one", "two") for n in range(20)]
    packer = Packer(vocabulary, 3, 512, SimpleNamespace(
        limit=0, mix={}, fim_share=1 - 1e-9, header_share=0, neighbours=1))
    token, n_behind = packer.token, 0
    for doc in docs:
        others = [d for d in docs if d["package"] == doc["package"]]
        before = packer.neighbour(doc, others, 200)
        assert len(before) <= 200
        if not before:
            continue
        n_behind += 1
        assert before[0] == token["repo_name"]
        name, _, rest = vocabulary.decode(
            before[1:], skip_special_tokens=False).partition("\n<|file_sep|>")
        path = rest.partition("\n")[0]
        assert name == doc["package"] == path.split("/")[0], (name, path)
        assert path != doc["path"]
        example = before + packer.example(packer.named(doc), doc["text"])
        assert example.count(token["file_sep"]) == 2
        assert example[-1] == token["endoftext"]
    assert n_behind > 30, n_behind
    assert not packer.neighbour(docs[0], docs[:1], 200)
    assert not packer.neighbour(docs[0], docs[:20], 30)


def test_average():
    """A point between two checkpoints, made by a command."""
    with tempfile.TemporaryDirectory() as folder:
        first, second, mean = (Path(folder) / n for n in "abm")
        one, other = random_model(seed=1), random_model(seed=2)
        checkpoint.save(first, one)
        checkpoint.save(second, other)
        script = Path(__file__).with_name("average.py")
        subprocess.run([sys.executable, script, first, second, mean,
                        "--share", "0.25"], check=True)
        for have, a, b in zip(checkpoint.load_model(mean).parameters(),
                              one.parameters(), other.parameters()):
            assert torch.allclose(have, 0.25 * a + 0.75 * b, atol=1e-6)
        bent = random_model(Config(**{**SMALL.as_dict(), "layers": 2}))
        checkpoint.save(second, bent)
        refused = subprocess.run([sys.executable, script, first, second, mean],
                                 capture_output=True, text=True)
        assert refused.returncode == 1 and "shapes" in refused.stderr


def test_sandbox():
    """A good line passes; wrong, endless and hostile ones do not."""
    if not shutil.which("bwrap"):
        print("skipped: test_sandbox: there is no bwrap")
        return
    pass_rate.SECONDS = 2
    task = {"prompt": "def f(x):\n", "canonical_solution": "    y = x + 1\n",
            "suffix": "    return y\n", "entry_point": "f",
            "test": "def check(f):\n    assert f(1) == 2\n"}
    secret = Path(__file__).resolve()
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    lines = {"    y = x + 1": True, "    y = x": False, "    y = (": False,
             "    while True: y = x": False,
             "    y = len('x' * (1 << 30)) and x + 1": False,
             f"    y = x + 1; open({str(secret)!r})": False,
             "    y = x + 1; open('/usr/x', 'w')": False,
             "    import socket; y = x + 1; socket.create_connection("
             f"{address!r})": False}
    for line, good in lines.items():
        assert pass_rate.passes(pass_rate.program_of(task, line)) == good, line
    listener.close()


def main():
    torch.set_num_threads(1)
    tests = [v for n, v in globals().items() if n.startswith("test_")]
    for test in tests:
        test()
        print(f"ok   {test.__name__}", flush=True)
    print(f"training: {len(tests)} passed, 0 failed")


if __name__ == "__main__":
    sys.exit(main())
