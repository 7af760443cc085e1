"""Opacus on the split: one linear model of all rows by DP-SGD with momentum; protects rows, with δ.

Every step takes all rows (sampling helps little where noise rules). The algorithm is the one that
JAX Privacy's side has, and so are its settings.
"""

from __future__ import annotations

import warnings

import numpy as np
import opacus
import torch
from opacus.accountants.utils import get_noise_multiplier
from side import DELTA, Method, Split, main

warnings.simplefilter("ignore")
torch.set_num_threads(1)


class Rows(torch.utils.data.TensorDataset):
    """Rows that are handed out all at once."""

    def __getitems__(self, places: list[int]) -> tuple[torch.Tensor, ...]:
        return self[places]


def trained(split: Split, epsilon: float, steps: int, momentum: float, clip: float) -> np.ndarray:
    torch.manual_seed(split.seed)
    rows = Rows(
        torch.tensor(split.X, dtype=torch.float32),
        torch.tensor(split.y[:, None], dtype=torch.float32),
    )
    model = torch.nn.Linear(split.X.shape[1], 1)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    noise = get_noise_multiplier(
        target_epsilon=epsilon, target_delta=DELTA, sample_rate=1.0, steps=steps, accountant="rdp"
    )
    model, optimiser, loader = opacus.PrivacyEngine(accountant="rdp").make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.4, momentum=momentum),
        data_loader=torch.utils.data.DataLoader(
            rows, batch_size=len(rows), collate_fn=lambda batch: batch
        ),
        noise_multiplier=split.factor * noise,
        max_grad_norm=clip,
    )
    for _ in range(steps):
        for inputs, targets in loader:
            optimiser.zero_grad()
            torch.nn.functional.mse_loss(model(inputs), targets).backward()
            optimiser.step()
    weights = torch.cat([p.detach().flatten() for p in model.parameters()]).numpy()
    return split.predict(weights.astype(float))


if __name__ == "__main__":
    methods = {"linear, all rows, DP-SGD": Method(trained, "a row")}
    main(opacus.__version__, methods)
