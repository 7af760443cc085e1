"""A plain PyTorch loop over the cohort."""

from __future__ import annotations

from setting import BATCH, CLIP, COHORT, NOISE, RATE, Gate, cohorts, data

X, y = data()

import torch  # noqa: E402
from torch_model import network, train  # noqa: E402

X, y = torch.from_numpy(X), torch.from_numpy(y)
model = network()
centre = [p.detach().clone() for p in model.parameters()]
gate, chosen = Gate(), cohorts()
while gate():
    total = [torch.zeros_like(c) for c in centre]
    for client in next(chosen):
        with torch.no_grad():
            for p, c in zip(model.parameters(), centre, strict=True):
                p.copy_(c)
        train(model, X[client], y[client], RATE, BATCH)
        with torch.no_grad():
            update = [p - c for p, c in zip(model.parameters(), centre, strict=True)]
            norm = torch.sqrt(sum(torch.sum(u * u) for u in update))
            scale = torch.clamp(CLIP / norm, max=1.0)
            for t, u in zip(total, update, strict=True):
                t.add_(u * scale)
    for t, c in zip(total, centre, strict=True):
        c.add_((t + NOISE * CLIP * torch.randn_like(t)) / COHORT)
