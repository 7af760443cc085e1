"""What unprotected messages give away whole: rows from gradients, a model from the others' models.

Two demonstrations of leaks that the papers describe and protect against: paper C, section 3.3, says
that data can be recovered from gradients "with controlled inputs"; paper A, Fig. 2, that an unusual
task's model shows in everybody else's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from tacit._types import Array
from tacit.audit.errata import node_data
from tacit.privacy.bounds import RowGradientClip
from tacit.privacy.mechanisms import GammaVector
from tacit.privacy.noise.perturb import SeededEntropy
from tacit.privacy.unit import Adjacency, Norm

__all__ = ["Recovery", "model_behind", "recover_rows", "recovery"]

_LONG = 1e14  # a model so long that every row's loss is flat: its slope is 0 or 1
_NARROW = 1e-6  # an arc in which two rows are hardly ever orthogonal to the model


def recover_rows(
    ask: Callable[[Array], Array],
    n_rows: int,
    n_features: int,
    *,
    n_questions: int = 10_000,
    random_state: int = 0,
) -> Array:
    """Return a node's rows from its mean logistic gradients at models of the asker's choice.

    The model turns half a circle. At long models a row's slope is 0 or 1 and changes exactly once,
    where the row is orthogonal to the model; there the gradient jumps by ± x/n. Halving the arcs in
    which it changed isolates all jumps. (x, y) and (−x, 1 − y) give the same gradients, so a row
    comes back up to its sign. Arcs are halved widest change first, ``n_questions`` at most.
    """
    rng = np.random.default_rng(random_state)
    plane = np.linalg.qr(rng.standard_normal((n_features, 2)))[0]

    def gradient(angle: float) -> Array:
        return ask(_LONG * (np.cos(angle) * plane[:, 0] + np.sin(angle) * plane[:, 1]))

    arcs = [(0.0, np.pi, gradient(0.0), gradient(np.pi))]
    found: list[Array] = []
    least = 1e-9 / n_rows
    questions = 2
    while arcs and questions < n_questions and len(found) < n_rows:
        low, high, before, after = arcs.pop(0)
        if np.linalg.norm(after - before) < least:
            continue
        if high - low < _NARROW:
            found.append(n_rows * (after - before))
            continue
        middle = (low + high) / 2
        between = gradient(middle)
        questions += 1
        arcs += [(low, middle, before, between), (middle, high, between, after)]
    return np.array(found).reshape(-1, n_features)


@dataclass(frozen=True)
class Recovery:
    """How many of a node's rows an attack brought back."""

    n_rows: int
    n_recovered: int

    @property
    def share(self) -> float:
        """The share of rows known to one part in a thousand."""
        return self.n_recovered / self.n_rows


def recovery(
    *, protected: bool, epsilon: float = 1.0, n_rows: int = 60, n_features: int = 10, seed: int = 0
) -> Recovery:
    """Ask a node for gradients and count the rows that come back.

    With ``protected`` every answer has the noise of the sound form at ``epsilon`` (which the node
    would stop giving after a few: the attack is even given its thousands of questions).
    """
    tasks = node_data(n_rows, n_features, random_state=seed)
    X, y = np.asarray(tasks.X), np.asarray(tasks.y)
    reach = RowGradientClip(1.0).sensitivity(Norm.L2, Adjacency.REPLACE_ONE)
    noise, entropy = GammaVector(reach, epsilon, local=True), SeededEntropy(seed)

    def ask(w: Array) -> Array:
        total = (expit(X @ w) - y) @ X
        answer = noise.release(total[None], entropy).value[0] if protected else total
        return np.asarray(answer) / n_rows

    rows = recover_rows(ask, n_rows, n_features, n_questions=60 * n_rows, random_state=seed + 1)
    if not len(rows):
        return Recovery(n_rows, 0)
    apart = np.minimum(
        np.linalg.norm(X[:, None] - rows, axis=2), np.linalg.norm(X[:, None] + rows, axis=2)
    )
    return Recovery(n_rows, int(np.sum(apart.min(axis=1) < 1e-3)))


def model_behind(own: Array, mapped: Array) -> Array:
    """Return the direction that a shared map keeps best, from what colluding tasks hold.

    Tasks know their own models (rows of ``own``) and what the map made of them; as many of them as
    there are features solve for the map. Its leading direction is an outlier's model, if there is
    one and the map was made without enough noise.
    """
    shared = np.linalg.lstsq(own, mapped, rcond=None)[0]
    _, vectors = np.linalg.eigh((shared + shared.T) / 2)
    direction: Array = vectors[:, -1]
    return direction
