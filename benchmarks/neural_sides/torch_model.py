"""The two models in PyTorch, for the three sides that use it."""

from __future__ import annotations

import torch
from setting import CLASSES, MODEL
from torch import nn


def network() -> nn.Module:
    """Return the model of this run."""
    if MODEL == "logistic":
        return nn.Linear(784, CLASSES)
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        nn.Conv2d(1, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(3136, 512),
        nn.ReLU(),
        nn.Linear(512, CLASSES),
    )


def train(model: nn.Module, X: torch.Tensor, y: torch.Tensor, rate: float, batch: int) -> None:
    """Take one epoch of SGD."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for rows in torch.randperm(len(y)).split(batch):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(X[rows]), y[rows]).backward()
        optimizer.step()
