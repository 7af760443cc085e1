"""A running fit can be watched: a bar, lines, or a function of one's own."""

from __future__ import annotations

import re

import pytest

import tacit
from tacit.datasets import make_low_rank
from tacit.errors import InvalidInput


@pytest.fixture(scope="module")
def rows():
    made = make_low_rank(100, 10, 4, n_test_rows=5, random_state=0).train
    return {"X": made.X, "y": made.y, "tasks": made.task_of_row}


def test_a_bar_counts_releases_and_says_what_they_spent(rows, capsys):
    model = tacit.SharedPriorRegressor(epsilon=2.0, progress=True).fit(**rows)
    shown = capsys.readouterr()
    n = model.privacy_.n_releases
    assert shown.out == ""
    assert f"{n}/{n}" in shown.err
    assert "releases ε = 2" in shown.err


def test_verbose_writes_a_line_a_release_whose_epsilon_ends_at_the_statements(rows, capsys):
    model = tacit.MeanRegularizedRegressor(epsilon=2.0, verbose=True).fit(**rows)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == model.privacy_.n_releases
    spent = [float(re.search(r"ε = ([\d.]+) so far", line)[1]) for line in lines]
    assert spent == sorted(spent)
    assert spent[-1] == pytest.approx(model.privacy_.epsilon, rel=0.01)


def test_noise_that_is_not_gaussian_is_watched_without_a_running_sum(rows, capsys):
    tacit.LowRankRegressor(epsilon=2.0, delta=0, verbose=True).fit(**rows)
    assert "ε" not in capsys.readouterr().err


def test_a_function_hears_of_every_release(rows):
    heard = []
    model = tacit.SharedPriorRegressor(
        epsilon=2.0, progress=lambda done, total: heard.append((done, total))
    ).fit(**rows)
    n = model.privacy_.n_releases
    assert heard == [(number + 1, n) for number in range(n)]


def test_every_private_estimator_has_both_parameters_and_checks_them(rows):
    for name in tacit.ESTIMATORS:
        parameters = getattr(tacit, name)().get_params()
        assert ("verbose" in parameters) == ("epsilon" in parameters), name
    with pytest.raises(InvalidInput, match="progress='yes'"):
        tacit.SharedPriorRegressor(progress="yes").fit(**rows)
    with pytest.raises(InvalidInput, match="verbose='yes'"):
        tacit.SharedPriorRegressor(verbose="yes").fit(**rows)
