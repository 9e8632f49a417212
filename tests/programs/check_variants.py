"""check_variants.py - `cerium run --best-of`: each answer is as it is alone, the best is first."""

import json
import subprocess
import sys

RUN = ["./cerium", "run", "--raw", "-p", "def add(a, b):", "-n", "20", "--temp", "0.9", "--json"]


def run(*more):
    return json.loads(subprocess.run([*RUN, *more], check=True, capture_output=True).stdout)


def score(answer):
    return sum(t["logprob"] for t in answer["tokens"]) / answer["n_tokens"]


all_of = run("--best-of", "16", "--seed", "5", "--threads", sys.argv[1])
answers = all_of["best_of"]
scores = [a["logprob"] for a in answers]
assert sorted(a["seed"] for a in answers) == list(range(5, 21)), answers
assert scores == sorted(scores, reverse=True) and scores[0] > scores[-1], scores
assert (all_of["text"], all_of["seed"]) == (answers[0]["text"], answers[0]["seed"]), all_of
for answer in answers[::4]:
    alone = run("--seed", str(answer["seed"]))
    assert (alone["text"], alone["stop"]) == (answer["text"], answer["stop"]), (alone, answer)
    assert abs(score(alone) - answer["logprob"]) < 1e-6, (score(alone), answer)
