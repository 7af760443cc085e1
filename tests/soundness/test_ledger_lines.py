"""What one data set costs is on one line, whatever estimators, units and adjacencies were used."""

import inspect
import math

import numpy as np
import pytest
from dp_accounting import dp_event

import tacit
from tacit import estimators
from tacit.errors import BudgetExceeded, InvalidInput
from tacit.privacy import Ledger, compose, optimal_composition
from tacit.privacy.events import EpsilonDeltaDpEvent as Step
from tacit.tuning import PrivateSearch

Gaussian = dp_event.GaussianDpEvent
TASK = {"unit": "task", "adjacency": "replace-one"}
ROW = {"unit": "row", "adjacency": "replace-one"}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((240, 4))
    y = (X[:, 0] + 0.3 * rng.standard_normal(240) > 0).astype(int)
    return X, y, np.repeat(np.arange(8), 30)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


def run(ledger, events, **line):
    with ledger.reserve(events, **line) as reservation:
        for event in events:
            reservation.charge(event)


def fits_of_rows(ledger, X, y, tasks):
    """Four fits of the same rows, pure ε = 1 each, by four doors."""
    transfer = tacit.TransferClassifier(1.0, 0.0, ledger=ledger)
    return [
        lambda: tacit.PrivateLogisticRegression(1.0, 0.0, ledger=ledger).fit(X, y),
        lambda: transfer.fit_source(X, y),
        lambda: transfer.fit(X, y),
        lambda: tacit.LowRankClassifier(1.0, delta=0.0, ledger=ledger).fit(X, y, tasks=tasks),
    ]


# -- one line for one data set -------------------------------------------------------------------


@pytest.mark.parametrize("first", range(4))
def test_one_budget_does_not_pay_for_four_fits_of_the_same_rows(path, rows, first):
    accepted = 0
    with Ledger(path, 1.0, 0.0) as ledger:
        fits = fits_of_rows(ledger, *rows)
        for fit in fits[first:] + fits[:first]:
            try:
                fit()
                accepted += 1
            except BudgetExceeded:
                pass
        assert accepted == 1
        assert ledger.spent().epsilon == 1.0


def test_a_run_that_protects_tasks_is_a_run_that_protects_rows(rows):
    ledger = Ledger(":memory:", 2.0, 0.0)
    X, y, tasks = rows
    tacit.LowRankClassifier(1.5, delta=0.0, ledger=ledger).fit(X, y, tasks=tasks)
    spent = ledger.spent(unit="row").epsilon
    assert spent == ledger.spent(unit="task").epsilon == pytest.approx(1.5)
    with pytest.raises(BudgetExceeded, match="unit row"):
        tacit.PrivateLogisticRegression(1.0, 0.0, ledger=ledger).fit(X, y)
    tacit.PrivateLogisticRegression(0.4, 0.0, ledger=ledger).fit(X, y)
    with pytest.raises(BudgetExceeded, match="unit row"):
        tacit.LowRankClassifier(0.2, delta=0.0, ledger=ledger).fit(X, y, tasks=tasks)


def test_a_line_for_tasks_says_how_many_runs_promise_a_task_nothing(rows):
    ledger = Ledger(":memory:", 2.0, 0.0)
    X, y, tasks = rows
    tacit.LowRankClassifier(0.5, delta=0.0, ledger=ledger).fit(X, y, tasks=tasks)
    tacit.PrivateLogisticRegression(0.5, 0.0, ledger=ledger).fit(X, y)
    by_unit = {line.unit: line for line in ledger.lines()}
    assert by_unit["task"].n_row_runs == 1
    assert by_unit["row"].n_row_runs == 0


ESTIMATORS = [
    name
    for name in estimators.__all__
    if "ledger" in inspect.signature(getattr(estimators, name)).parameters
]


def test_every_private_estimator_was_found():
    assert len(ESTIMATORS) >= 14


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_private_estimator_charges_the_data_it_names(rows, name):
    X, y, tasks = rows
    ledger = Ledger(":memory:", 5.0, 1e-3)
    # Where a few tasks share nothing at so small a budget, a public clip makes them.
    clipped = ("MeanRegularized", "SharedPrior", "TaskRelationship")
    few = {"clip": 2.0} if name.startswith(clipped) else {}
    model = getattr(estimators, name)(0.5, ledger=ledger, data="clinic", **few)
    model.fit(X, y, tasks=tasks)
    (line,) = ledger.lines()
    assert line.data == "clinic"
    assert 0 < line.spent.epsilon <= 0.5 * (1 + 1e-9)
    assert ledger.spent("elsewhere", line.unit).epsilon == 0.0
    with pytest.raises(InvalidInput, match="data="):
        getattr(estimators, name)(0.5, data=" ").fit(X, y, tasks=tasks)


def test_named_data_are_apart_and_a_run_without_a_name_counts_on_all_of_them():
    ledger = Ledger(":memory:", 1.0, 0.0)
    run(ledger, [Step(0.6)], data="a", **ROW)
    run(ledger, [Step(0.7)], data="b", **ROW)
    assert (ledger.spent("a").epsilon, ledger.spent("b").epsilon) == (0.6, 0.7)
    assert ledger.left().epsilon == pytest.approx(0.3)
    with pytest.raises(BudgetExceeded, match="b data"):
        ledger.reserve(Step(0.35), **ROW)
    run(ledger, [Step(0.25)], **ROW)
    assert ledger.spent("a").epsilon == pytest.approx(0.85)
    assert ledger.spent("b").epsilon == pytest.approx(0.95)
    assert ledger.spent("never seen", "row").epsilon == 0.25
    with pytest.raises(BudgetExceeded):
        ledger.reserve(Step(0.2), data="a", **ROW)


def test_sources_and_targets_of_one_call_cost_one_release_and_are_refused_together(rows):
    X, y, tasks = rows
    ledger = Ledger(":memory:", 1.5, 0.0)
    model = tacit.TransferClassifier(1.0, 0.0, ledger=ledger)
    model.fit(X, y, tasks=tasks, source_task=0)
    assert ledger.spent().epsilon == 1.0
    head = ledger.head
    with pytest.raises(BudgetExceeded):
        model.fit(X, y, tasks=tasks, source_task=0)
    assert ledger.head == head


# -- adjacencies ---------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", ["add-or-remove", "zero-out"])
@pytest.mark.parametrize("unit", ["task", "row"])
def test_other_adjacencies_convert_to_replace_one_at_twice_the_epsilon(adjacency, unit):
    ledger = Ledger(":memory:", 2.0, 1e-5, rule="basic")
    run(ledger, [Step(0.5)], unit=unit, adjacency="replace-one")
    run(ledger, [Step(0.5)], unit=unit, adjacency=adjacency)
    assert ledger.spent(unit=unit).epsilon == 1.5
    run(ledger, [Step(0.1, 9.99e-7)], unit=unit, adjacency=adjacency, delta=1e-6)
    assert ledger.spent(unit=unit).epsilon == pytest.approx(1.7)
    assert ledger.spent(unit=unit).delta == pytest.approx(1e-6 * (1 + math.exp(0.1)))
    with pytest.raises(BudgetExceeded):
        ledger.reserve(Step(0.2), unit=unit, adjacency=adjacency)
    (line,) = ledger.lines()
    assert line.adjacency == "replace-one"


def test_gaussian_noise_under_zero_out_counts_as_half_the_noise_under_replace_one():
    ledger = Ledger(":memory:", 9.0, 1e-5)
    run(ledger, [Gaussian(4.0)], **TASK)
    run(ledger, [Gaussian(10.0)] * 3, unit="task", adjacency="zero-out")
    truth = compose([Gaussian(4.0)] + [Gaussian(5.0)] * 3, delta=1e-5).epsilon
    assert ledger.spent().epsilon == truth


@pytest.mark.parametrize("first", ["add-or-remove", "zero-out"])
def test_nothing_converts_from_replace_one_and_the_refusal_changes_nothing(first):
    ledger = Ledger(":memory:", 2.0, 1e-5)
    run(ledger, [Step(0.1)], unit="task", adjacency=first)
    head = ledger.head
    for adjacency in {"replace-one", "add-or-remove", "zero-out"} - {first}:
        with pytest.raises(InvalidInput, match=f"counts tasks under '{first}'"):
            ledger.reserve(Step(0.1), unit="task", adjacency=adjacency)
    assert ledger.head == head


def test_a_task_left_out_is_two_steps_for_a_row():
    ledger = Ledger(":memory:", 2.0, 0.0)
    run(ledger, [Step(0.5)], unit="task", adjacency="add-or-remove")
    assert ledger.spent().epsilon == 0.5
    assert ledger.spent(unit="row").epsilon == 1.0
    run(ledger, [Step(0.5)], unit="row", adjacency="add-or-remove")
    assert ledger.spent(unit="row").epsilon == 1.5


def test_sampled_releases_convert_by_the_weak_triangle_inequality():
    ledger = Ledger(":memory:", 3.0, 1e-5, rule="rdp")
    run(ledger, [Gaussian(16.0)] * 10, unit="task", adjacency="add-or-remove")
    exact = Ledger(":memory:", 3.0, 1e-5, rule="rdp")
    run(exact, [Gaussian(8.0)] * 10, unit="row", adjacency="add-or-remove")
    truth, found = exact.spent().epsilon, ledger.spent(unit="row").epsilon
    assert truth <= found <= 1.01 * truth
    sampled = dp_event.PoissonSampledDpEvent(0.1, Gaussian(4.0))
    run(ledger, [sampled] * 10, unit="task", adjacency="add-or-remove")
    assert ledger.spent(unit="row").epsilon > found


# -- refusals change nothing ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "epsilon", "epsilon_rows"), [(1.0, 2.0, 0.5), (1.0, 0.5, 2.0), (1.0, 2.0, 2.0)]
)
def test_a_run_refused_on_one_line_leaves_all_lines_as_they_were(
    rows, path, total, epsilon, epsilon_rows
):
    X, y, tasks = rows
    with Ledger(path, total, 1e-3) as ledger:
        head = ledger.head
        model = tacit.LowRankClassifier(epsilon, epsilon_rows=epsilon_rows, ledger=ledger)
        with pytest.raises(BudgetExceeded):
            model.fit(X, y, tasks=tasks)
        assert ledger.lines() == ()
        assert ledger.head == head


def test_row_noise_is_charged_before_the_first_release_and_in_place_of_it(rows):
    X, y, tasks = rows
    ledger = Ledger(":memory:", 2.0, 0.0)
    model = tacit.LowRankClassifier(2.0, delta=0.0, epsilon_rows=0.75, ledger=ledger)
    model.fit(X, y, tasks=tasks)
    assert ledger.spent(unit="task").epsilon == pytest.approx(2.0)
    assert ledger.spent(unit="row").epsilon == 0.75
    reservation = Ledger(":memory:", 2.0, 0.0).reserve(Step(1.0), rows=Step(0.5), **TASK)
    with pytest.raises(tacit.errors.LedgerError, match="charge_rows first"):
        reservation.charge(Step(1.0))
    reservation.charge_rows()
    reservation.charge(Step(1.0))


# -- searches ------------------------------------------------------------------------------------


def test_a_search_refuses_row_noise_that_it_would_draw_again_for_every_run(rows):
    X, y, tasks = rows
    ledger = Ledger(":memory:", 5.0, 1e-3)
    protected = tacit.LowRankClassifier(epsilon_rows=1.0)
    for search in (
        PrivateSearch(protected, {"n_rounds": [1, 2]}, ledger=ledger, mean_runs=2.0),
        PrivateSearch(
            tacit.LowRankClassifier(), {"epsilon_rows": [None, 1.0]}, ledger=ledger, mean_runs=2.0
        ),
    ):
        with pytest.raises(InvalidInput, match=r"epsilon_rows=1\.0: a search draws row noise"):
            search.fit(X, y, tasks=tasks)
    assert ledger.lines() == ()


def test_a_search_counts_for_rows_and_on_the_data_it_names(rows):
    X, y, tasks = rows
    ledger = Ledger(":memory:", 2.0, 1e-3)
    estimator = tacit.MeanRegularizedClassifier()
    search = PrivateSearch(
        estimator, {"n_rounds": [1, 2]}, ledger=ledger, data="clinic", mean_runs=2.0
    )
    search.fit(X, y, tasks=tasks)
    (line,) = ledger.lines()
    assert line.data == "clinic"
    assert ledger.spent("clinic", "row").epsilon == line.spent.epsilon > 0.5


# -- one number, one path ------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [5.0, 3.7306, 7.1, 0.9])
def test_the_ledger_is_never_below_the_composition_however_the_releases_are_cut(noise):
    event = Gaussian(noise)
    for cuts in ([1] * 14, [12, 11], [12, 12, 4], [7] * 8, [1, 2, 3, 4, 5, 6, 7]):
        ledger = Ledger(":memory:", 1e4, 1e-6)
        for count in cuts:
            run(ledger, [event] * count, **TASK)
        truth = compose([event] * sum(cuts), delta=1e-6).epsilon
        assert ledger.spent().epsilon == truth


def test_unequal_pure_steps_at_a_tiny_delta_are_computed_from_above():
    # Steps of 0.1 and 0.2: all losses are multiples of 0.1, and whole numbers count them exactly.
    ones, twos, delta = 60, 30, 1e-13
    counts = {0: 1.0}
    for epsilon, repeats in ((1, ones), (2, twos)):
        truth = 1 / (1 + math.exp(-0.1 * epsilon))
        for _ in range(repeats):
            joined = {}
            for loss, mass in counts.items():
                for sign, weight in ((1, truth), (-1, 1 - truth)):
                    key = loss + sign * epsilon
                    joined[key] = joined.get(key, 0.0) + mass * weight
            counts = joined

    def excess(epsilon):
        terms = (
            mass * -math.expm1(epsilon - 0.1 * loss)
            for loss, mass in counts.items()
            if 0.1 * loss > epsilon
        )
        return math.fsum(terms) - delta

    low, high = 0.0, 12.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    found = optimal_composition([0.1] * ones + [0.2] * twos, delta)
    assert high * (1 - 1e-12) <= found <= high * (1 + 1e-4)


@pytest.mark.parametrize(
    "name", [n for n in tacit.ESTIMATORS if "ledger" in getattr(tacit, n)._get_param_names()]
)
def test_a_fit_that_hides_nothing_is_on_the_ledger_that_it_was_given(rows, name):
    """Most estimators learn otherwise without privacy, and passed their ledger by."""
    X, y, task = rows
    limited = Ledger(":memory:", epsilon=1.0, delta=1e-5)
    with pytest.raises(BudgetExceeded):
        getattr(tacit, name)(epsilon=math.inf, ledger=limited).fit(X, y, tasks=task)
    assert limited.spent().epsilon == 0


def test_a_ledger_without_limit_records_a_fit_that_hides_nothing(rows):
    X, y, task = rows
    ledger = Ledger(":memory:", epsilon=math.inf, delta=0.0)
    tacit.MeanRegularizedRegressor(epsilon=math.inf, ledger=ledger).fit(X, y, tasks=task)
    assert ledger.spent().epsilon == math.inf
