"""Checkpoints: a configuration, weights, and the state that a run needs to continue."""

import os

import torch

from model import Config, Decoder


def save(path, model, **state):
    """Write beside the old file, then rename: a kill loses nothing."""
    partial = path.with_suffix(".partial")
    torch.save({"config": model.config.as_dict(),
                "weights": model.state_dict(), **state}, partial)
    os.replace(partial, path)


def load(path):
    return torch.load(path, map_location="cpu", weights_only=True)


def load_model(path):
    """The model alone, ready to be evaluated."""
    state = load(path)
    model = Decoder(Config(**state["config"]))
    model.load_state_dict(state["weights"])
    return model.eval()
