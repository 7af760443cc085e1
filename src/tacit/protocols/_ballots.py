"""Ballots: tasks vote on the order of magnitude of a number, so that no scale has to be known.

A task spreads one vote over two neighbouring powers of two, in proportion to where its number lies
between them; the noisy count shows the peak whatever the unit of the data.
"""

from __future__ import annotations

import numpy as np

from tacit._types import Array
from tacit.privacy.mechanisms import Mechanism

__all__ = ["OCTAVES", "ballots", "read_ballot", "signed_ballots"]

OCTAVES = np.arange(-16, 17)
_WINDOW = np.array([0.5, 1.0, 0.5])
_STANDS_OUT = 3.0  # standard deviations: one count of pure noise in 25 shows a false peak


def ballots(values: Array) -> Array:
    """Return votes (m, 33) on positive ``values`` (m,); others abstain with zeros.

    Guarantee: row i depends on value i alone, is non-negative and sums to at most 1.
    """
    votes = np.zeros((len(values), OCTAVES.size))
    voters = np.flatnonzero(values > 0)
    position = np.clip(np.log2(values[voters]) - OCTAVES[0], 0, OCTAVES.size - 1)
    below = np.minimum(position.astype(np.int64), OCTAVES.size - 2)
    votes[voters, below] = 1 - (position - below)
    votes[voters, below + 1] = position - below
    return votes


def signed_ballots(values: Array) -> Array:
    """Return votes (m, k, 2, 33) on ``values`` (m, k): positive ones first, then negative ones."""
    flat = values.ravel()
    votes = np.stack([ballots(flat), ballots(-flat)], axis=1)
    return votes.reshape(*values.shape, 2, OCTAVES.size)


def read_ballot(counts: Array, mechanism: Mechanism) -> float | None:
    """Return the number at the peak of the noisy ``counts``; None if nothing stands out.

    The peak is sought over windows of three octaves and placed at the window's centroid.

    Guarantee: post-processing of a release.
    """
    spread = mechanism.deviation(counts.shape)
    smooth = np.convolve(counts, _WINDOW, mode="same")
    peak = int(smooth.argmax())
    if smooth[peak] <= max(_STANDS_OUT * spread * float(np.linalg.norm(_WINDOW)), 1e-9):
        return None
    window = slice(max(peak - 1, 0), peak + 2)
    votes = np.maximum(counts[window], 0.0)
    return float(2.0 ** (votes @ OCTAVES[window] / votes.sum()))
