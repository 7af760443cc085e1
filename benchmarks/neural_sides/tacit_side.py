"""tacit: cohort training, exact clipped sums and the floating-point-safe Gaussian release."""

from __future__ import annotations

from threading import get_ident

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
from tacit.privacy.clipped_sums import clipped_sum  # noqa: E402
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
# A vector a thread; sums are exact, so that the order in which they are taken is free.
sums, spare = {}, []


def add(turn: neural.Turn) -> None:
    """Add the clipped updates of some clients to the thread's sum."""
    if get_ident() not in sums:
        sums[get_ident()] = spare.pop() if spare else np.zeros(ends[-1])
    parts = zip(np.split(sums[get_ident()], ends[:-1]), leaves, strict=True)
    into = [part.reshape(leaf.shape) for part, leaf in parts]
    clipped_sum(bound, jax.tree.leaves(turn.updates), into=into)


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
        clip=CLIP,
        each=add,
    ):
        pass
    spare = list(sums.values())
    sums.clear()
    for other in spare[1:]:
        spare[0] += other
    released = np.asarray(noise.release(spare[0], entropy).value)
    for vector in spare:
        vector[:] = 0.0
    leaves = [
        np.asarray(leaf) + (part / COHORT).astype(np.float32).reshape(leaf.shape)
        for leaf, part in zip(leaves, np.split(released, ends[:-1]), strict=True)
    ]
    del released
    turn += 1
