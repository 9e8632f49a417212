"""A teacher's next-token distributions for rows of a student's tokens.

A teacher is a checkpoint of ours, a GGUF file, or a folder as Hugging Face
publishes models; transformers runs models that are not ours. With the student's
vocabulary it gives logits for every token. With another one the two see the
same bytes cut differently, and what can be compared is the likelihood that each gives
to stretches between places where both have a cut: approximate likelihood
matching (Minixhofer, Ponti and Vulic, arXiv:2503.20083).
"""

import gguf
import torch

import checkpoint
import import_gguf


def bytes_of_letters():
    """The byte of each letter of a byte-level vocabulary."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    return {**{chr(b): b for b in shown},
            **{chr(256 + i): b for i, b in enumerate(hidden)}}


class Reader:
    """Rows of a byte-level vocabulary's tokens, as bytes. A mark, such as
    <|file_sep|>, counts as one."""

    def __init__(self, vocabulary):
        letters = bytes_of_letters()
        self.marks = {i: t.content for i, t in
                      vocabulary.get_added_tokens_decoder().items()}
        self.bytes = {i: bytes(letters[c] for c in token)
                      for token, i in vocabulary.get_vocab().items()
                      if i not in self.marks}

    def ends(self, row):
        """Where each token ends."""
        end, ends = 0, []
        for token in row:
            end += 1 if token in self.marks else len(self.bytes[token])
            ends.append(end)
        return ends

    def parts(self, row):
        """[(begin, text)] and [(begin, mark)], in order; from a text that was
        cut within a character, that character is left out."""
        found, run, begin = [], b"", 0
        for token in [*row, None]:
            if token is not None and token not in self.marks:
                run += self.bytes[token]
                continue
            lost = next((i for i, b in enumerate(run) if b & 0xC0 != 0x80),
                        len(run))
            if len(run) > lost:
                found.append((begin + lost,
                              run[lost:].decode("utf-8", "ignore"), False))
            begin += len(run)
            if token is not None:
                found.append((begin, self.marks[token], True))
            begin, run = begin + 1, b""
        return found


def stretches(mine, other):
    """[(first, end, other's first, other's end)] of tokens between places
    where tokens of both end; mine, other: where each token ends."""
    places = {end: i + 1 for i, end in enumerate(other) if end is not None}
    shared = [(i + 1, places[end]) for i, end in enumerate(mine)
              if end in places]
    return [(a, b, c, d) for (a, c), (b, d) in zip(shared, shared[1:])]


class Checkpoint:
    """One of our models, with the student's vocabulary."""

    same = True

    def __init__(self, model, device):
        self.model = model.eval().requires_grad_(False).to(device)
        self.context = model.config.context

    def logits(self, tokens):
        """A function from a slice of the flattened positions of tokens
        [rows, length] to their logits, [positions, vocabulary]."""
        hidden = self.model.hidden(tokens).flatten(0, 1)
        table = self.model.embedding.weight
        return lambda piece: hidden[piece] @ table.to(hidden.dtype).T


class HuggingFace:
    """A causal language model that transformers runs."""

    def __init__(self, path, vocabulary, device):
        from transformers import AutoModelForCausalLM, AutoTokenizer
        where = path if path.is_dir() else path.parent
        more = {} if path.is_dir() else {"gguf_file": path.name}
        self.tokenizer = AutoTokenizer.from_pretrained(where, **more)
        self.model = AutoModelForCausalLM.from_pretrained(
            where, dtype=torch.float32, **more)
        self.model.eval().requires_grad_(False).to(device)
        self.context = self.model.config.max_position_embeddings
        theirs, self.reader = self.tokenizer.get_vocab(), Reader(vocabulary)
        self.same = theirs == vocabulary.get_vocab()
        self.marks = {m: theirs[m] for m in self.reader.marks.values()
                      if m in theirs}
        self.device = device

    def logits(self, tokens):
        rows = torch.stack([self.model(row[None]).logits[0]
                            for row in tokens]).flatten(0, 1)
        return lambda piece: rows[piece]

    def contexts(self, row):
        """[(tokens, where they end)]: the teacher's reading of a row of the
        student's. At a mark that it lacks it begins a new context."""
        bos = self.tokenizer.bos_token_id
        found = []
        for begin, text, is_mark in self.reader.parts(row):
            known = not is_mark or text in self.marks
            if not found or not known:
                at = begin if known else begin + 1
                found.append(([], []) if bos is None else ([bos], [at]))
            if is_mark and known:
                found[-1][0].append(self.marks[text])
                found[-1][1].append(begin + 1)
            elif known:
                self.add_text(begin, text, *found[-1])
        return found

    def add_text(self, begin, text, ids, ends):
        """Tokenizers give the ends of tokens in characters: if one ends
        within a character that another ends, too, that is not a cut."""
        told = self.tokenizer(text, add_special_tokens=False,
                              return_offsets_mapping=True)
        places = [begin]
        for character in text:
            places.append(places[-1] + len(character.encode()))
        spans = told["offset_mapping"]
        for i, (_, end) in enumerate(spans):
            is_last = i + 1 == len(spans) or spans[i + 1][0] >= end
            ends.append(places[end] if is_last else None)
        ids += told["input_ids"]

    def likelihoods(self, rows):
        """For stretches of rows [rows, length] of the student's tokens, each
        after a first one: [(row, first, end, log-likelihood)]."""
        told = []
        for r, row in enumerate(rows.tolist()):
            mine = self.reader.ends(row)
            for ids, ends in self.contexts(row):
                ids = torch.tensor(ids[:self.context], device=self.device)
                if len(ids) < 2:
                    continue
                logs = self.model(ids[None, :-1]).logits[0].float()
                each = logs.log_softmax(-1).gather(1, ids[1:, None])[:, 0]
                sums = [0.0, 0.0, *each.double().cumsum(0).tolist()]
                told += [(r, a, b, sums[d] - sums[c])
                         for a, b, c, d in stretches(mine, ends[:len(ids)])]
        return told


def is_ours(path, vocabulary):
    """Whether a GGUF file is of our kind, with the student's vocabulary."""
    fields = gguf.GGUFReader(path).fields
    if fields["general.architecture"].contents() != "qwen3":
        return False
    tokens = fields["tokenizer.ggml.tokens"].contents()
    return {t: i for i, t in enumerate(tokens)} == vocabulary.get_vocab()


def load(path, vocabulary, device):
    """The teacher at a path; vocabulary: the student's Tokenizer."""
    if path.suffix == ".pt":
        model = checkpoint.load_model(path)
        if model.config.vocab != vocabulary.get_vocab_size():
            raise SystemExit(f"{path}: {model.config.vocab} tokens, the "
                             f"student has {vocabulary.get_vocab_size()}")
        return Checkpoint(model, device)
    if path.is_file() and is_ours(path, vocabulary):
        return Checkpoint(import_gguf.load(path), device)
    if not path.exists():
        raise SystemExit(f"{path}: does not exist")
    return HuggingFace(path, vocabulary, device)
