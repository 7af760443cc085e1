"""tacit: cohort training, exact clipped sums and the floating-point-safe Gaussian release."""

from __future__ import annotations

from setting import (
    BATCH,
    CLASSES,
    CLIENTS,
    CLIP,
    COHORT,
    IMAGES,
    MODEL,
    NOISE,
    RATE,
    Gate,
    cohorts,
    data,
)

X, y = data()

import jax  # noqa: E402
import numpy as np  # noqa: E402

from tacit import neural  # noqa: E402
from tacit.privacy import SystemEntropy  # noqa: E402
from tacit.privacy.bounds import VectorClip  # noqa: E402
from tacit.privacy.clipped_sums import ClippedSum  # noqa: E402
from tacit.privacy.mechanisms import Gaussian  # noqa: E402

model = neural.image_cnn(CLASSES) if MODEL == "cnn" else neural.multinomial_logistic(784, CLASSES)
training = neural.LocalTraining(model, pull=neural.NoPull(), batch_size=BATCH)
rows = neural.StackedRows.of(
    X.reshape(-1, 784), y.ravel(), np.arange(0, CLIENTS * IMAGES + 1, IMAGES)
)
del X, y  # the rows hold a copy
entropy = SystemEntropy()
keys = entropy.words(CLIENTS).view(np.uint32).reshape(CLIENTS, 2)
bound, noise = VectorClip(CLIP), Gaussian(sensitivity=CLIP, noise_multiplier=NOISE)
leaves, form = jax.tree.flatten(model.opening())
ends = np.cumsum([leaf.size for leaf in leaves])
total = ClippedSum(bound, [leaf.shape for leaf in leaves])

gate, chosen, turn = Gate(), cohorts(), 0
while gate():
    for _ in neural.train_cohort(
        training,
        rows,
        next(chosen),
        centre=jax.tree.unflatten(form, leaves),
        models=None,
        keys=keys,
        turn=turn,
        strength=0.0,
        learning_rate=RATE,
        total=total,
    ):
        pass
    released = np.asarray(noise.release(total.value, entropy).value)
    total.clear()
    leaves = [
        np.asarray(leaf) + (part / COHORT).astype(np.float32).reshape(leaf.shape)
        for leaf, part in zip(leaves, np.split(released, ends[:-1]), strict=True)
    ]
    del released
    turn += 1
