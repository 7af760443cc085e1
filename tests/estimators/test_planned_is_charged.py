"""What is planned, what is charged and what is stated are the same events, for every estimator."""

from __future__ import annotations

import inspect
import warnings
from collections import Counter

import numpy as np
import pytest
from sklearn.base import clone

import tacit
from tacit.engines import Local, conduct
from tacit.errors import InvalidInput, PrivacyLeak, PrivacyWarning
from tacit.estimators import PrivateEstimator
from tacit.losses import SquaredLoss
from tacit.privacy import Billboard, Ledger, SeededEntropy, compose
from tacit.privacy.accounting.leaves import event_to_json
from tacit.privacy.mechanisms import MECHANISMS, Gaussian
from tacit.privacy.published import PUBLISHED
from tacit.privacy.schedule import Schedule
from tacit.privacy.unit import Unit
from tacit.protocols.averaged import AveragedProtocol
from tacit.tasks import TaskSet

N_TASKS, N_FEATURES = 7, 4
PRIVATE = [name for name in tacit.ESTIMATORS if issubclass(getattr(tacit, name), PrivateEstimator)]
# Forms of a method that release something else; a parameter that an estimator lacks is left out.
FORMS = [
    {},
    {"clip": 2.0},
    {"n_rounds": 3},
    {"update": "proximal", "n_rounds": 4},
    {"update": "proximal", "n_rounds": 2, "clip": 2.0, "alpha": 0.5},
    {"unknown_task": "shared"},
    {"epsilon_rows": 3.0, "target_bound": 5.0},
    {"epsilon": 300.0},  # where few tasks can be told from noise
]
NAMES = ("auto", *MECHANISMS, *PUBLISHED)


def data_of(name):
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(N_TASKS), 9)
    X = rng.standard_normal((len(task), N_FEATURES))
    y = X @ rng.standard_normal(N_FEATURES)
    return (
        X,
        (np.digitize(y, [-0.5, 0.5]) if name.endswith(("Classifier", "Regression")) else y),
        task,
    )


class Watched(Ledger):
    """A ledger that shows what was set aside and what was charged, by unit."""

    def reserve(self, events, *, unit, rows=None, **options):
        self.reserved = {Unit(unit): texts(events)} if events else {}
        if rows:
            self.reserved[Unit.ROW] = texts(rows)
        self.reservation = super().reserve(events, unit=unit, rows=rows, **options)
        return self.reservation

    @property
    def charged(self):
        left = self.reservation.left
        return {
            unit: events - Counter(left.get(unit, {})) for unit, events in self.reserved.items()
        }


def texts(events):
    return Counter(event_to_json(event) for event in events)


def fits():
    """Yield every estimator in every form with every mechanism that it takes."""
    for name in PRIVATE:
        kind = getattr(tacit, name)
        known = inspect.signature(kind).parameters
        for form in FORMS:
            for mechanism in NAMES if "mechanism" in known else ("auto",):
                options = {**form, "mechanism": mechanism} if "mechanism" in known else form
                pure = mechanism != "auto" and _family(mechanism) == "pure"
                if not set(options) <= set(known):
                    continue
                model = kind(**options, delta=0.0 if pure else 1e-5)
                if _takes(model):
                    yield pytest.param(model, id=f"{name}-{mechanism}-{_shown(form)}")


def _family(mechanism):
    return (MECHANISMS.get(mechanism) or PUBLISHED[mechanism]).family


def _shown(form):
    return ",".join(f"{name}={value}" for name, value in form.items())


def _takes(model):
    try:
        model._check_parameters()
        model._schedule(model._protocol(sizes_of(model)), sizes_of(model))
    except InvalidInput:
        return False
    return True


def sizes_of(model):
    from tacit.estimators._private import Sizes

    outputs = 3 if type(model).__name__.endswith(("Classifier", "Regression")) else 1
    return Sizes(N_TASKS, N_FEATURES, outputs, 9 * N_TASKS)


with warnings.catch_warnings():
    warnings.simplefilter("ignore", PrivacyWarning)
    CASES = list(fits())


def _asks_nothing(model):
    """Check a fit in which nothing could be told from the noise: nothing is asked or spent."""
    ledger = Watched(":memory:", epsilon=1e6, delta=0.5)
    X, y, task = data_of(type(model).__name__)
    fitted = clone(model).set_params(ledger=ledger).fit(X, y, tasks=task)
    assert not hasattr(ledger, "reserved")
    assert fitted.privacy_.epsilon == fitted.privacy_.n_releases == len(fitted.billboard_) == 0


@pytest.mark.filterwarnings("ignore::tacit.errors.PrivacyWarning")
@pytest.mark.parametrize("model", CASES)
def test_planned_charged_and_stated_are_the_same_events(model):
    sizes = sizes_of(model)
    if not model._schedule(model._protocol(sizes), sizes).rounds:
        _asks_nothing(model)
        model.set_params(epsilon=1e4)  # so much that everything is asked
    plan = model.plan(N_TASKS, N_FEATURES, n_outputs=sizes.n_outputs, n_rows=sizes.n_rows)
    schedule = model._schedule(model._protocol(sizes), sizes)
    planned = {unit: texts(schedule.events(unit)) for unit in schedule.units}
    ledger = Watched(":memory:", epsilon=1e6, delta=0.5)
    X, y, task = data_of(type(model).__name__)
    model.set_params(ledger=ledger).fit(X, y, tasks=task)
    stated = {
        unit: texts(p.event for p in model.billboard_.charged if p.unit is unit)
        for unit in schedule.units
    }
    assert planned == ledger.reserved == ledger.charged == stated

    shown = [
        (one.name, one.mechanism, one.scale) for one in plan.releases for _ in range(one.turns)
    ]
    # Where tasks take turns by themselves, everybody has a line: those of the first are the turns.
    turns = [row for row in model.history_ if row.get("task", 0) == 0]
    assert shown == [(row["name"], row["mechanism"], row["scale"]) for row in turns]
    statement = model.privacy_
    cost = compose(
        schedule.events(statement.unit), delta=statement.delta, adjacency=schedule.adjacency
    )
    assert statement.n_releases == sum(planned.get(statement.unit, Counter()).values())
    assert statement.epsilon == cost.epsilon <= model.epsilon * (1 + 1e-9)
    assert statement.curator == schedule.trust(statement.unit) == plan.trust


def test_the_table_of_fits_is_not_empty():
    seen = {type(case.values[0]).__name__ for case in CASES}
    assert seen == set(PRIVATE)
    assert len(PRIVATE) >= 16


def test_noise_for_a_clip_of_one_is_refused_for_a_clip_of_a_hundred():
    rounds = {
        clip: AveragedProtocol(SquaredLoss(), N_TASKS, N_FEATURES, clip=clip).rounds()
        for clip in (1.0, 100.0)
    }
    right = Schedule.calibrate(rounds[1.0], epsilon=1.0, delta=1e-5)
    with pytest.raises(PrivacyLeak, match=r"covers changes up to 2 .*allows 200 "):
        Schedule(rounds[100.0], right.mechanisms)
    with pytest.raises(PrivacyLeak):
        Schedule(rounds[100.0], (Gaussian(199.999, 3.0),))
    Schedule(rounds[100.0], (Gaussian(200.0, 3.0),))


def test_a_protocol_that_answers_for_those_not_asked_is_refused():
    class Loud(AveragedProtocol):
        def speak(self, home, public, call, joined):
            home, said = super().speak(home, public, call, None)
            return home, np.concatenate([said, said])

    X, y, task = data_of("AveragedRegressor")
    protocol = Loud(SquaredLoss(), N_TASKS, N_FEATURES)
    schedule = Schedule.calibrate(protocol.rounds(), epsilon=1.0, delta=1e-5)
    entropy = SeededEntropy(0)
    parties = Local().parties(protocol, TaskSet.from_arrays(X, y, task), entropy=entropy)
    board = Billboard()
    with pytest.raises(PrivacyLeak, match="7 tasks were asked, but 14 spoke"):
        conduct(protocol, schedule, parties, board, entropy=entropy)
    assert not len(board)


def test_published_noise_says_what_it_is():
    model = tacit.LowRankRegressor(mechanism="wishart-published", update="proximal", clip=1.0)
    X, y, task = data_of("LowRankRegressor")
    with pytest.warns(PrivacyWarning):
        model.fit(X, y, tasks=task)
    assert not model.privacy_.holds
