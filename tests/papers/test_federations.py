"""The federations that stand for the federated paper's: every one can be dealt."""

import sys
from pathlib import Path

import numpy as np
import pytest

from tacit.errors import DataNotFound

sys.path.insert(0, str(Path(__file__).parents[2] / "papers"))
from private_federated.federations import federation

SIZES = {
    "femnist": (206, 62),
    "har": (21, 6),
    "mnist": (836, 10),
    "stackex": (274, 2),
    "vehicle": (23, 2),
}


@pytest.mark.parametrize("name", SIZES)
def test_every_federation_has_its_tasks_and_classes_and_halves(name):
    try:
        dealt = federation(name, 0)
    except DataNotFound as missing:
        pytest.skip(str(missing))
    n_tasks, n_classes = SIZES[name]
    assert (dealt.n_tasks, len(dealt.classes)) == (n_tasks, n_classes)
    counts = [np.bincount(rows[2], minlength=n_tasks) for rows in (dealt.train, dealt.test)]
    assert np.all((counts[0] == counts[1]) | (counts[0] == counts[1] + 1))
    assert np.isfinite(dealt.train[0]).all()
