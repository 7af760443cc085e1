"""Ledger attack: whatever is called, in whatever order, the ledger is not below the truth.

Random sequences of public calls are played on one file: runs for tasks and rows, under three
adjacencies, on named and unnamed data, by Gaussian and pure releases, refused, cut short, killed
without closing, taken over, recovered. Beside them a plain list of what was really published is
kept, and composed by dp-accounting's privacy loss distributions, which the ledger does not use.
"""

import math
from collections import Counter

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as losses

import tacit
from tacit.errors import BudgetExceeded, InvalidInput
from tacit.privacy import Ledger
from tacit.privacy.events import EpsilonDeltaDpEvent as Step

Gaussian = dp_event.GaussianDpEvent
NAMES = (None, "a", "b")
ADJACENCIES = ("replace-one", "add-or-remove", "zero-out")
WIDTH = 2e-4


def truth(published, delta):
    """Return a lower bound, tight to the grid, of the ε of ``published`` = [(event, steps)]."""
    squares = [
        (steps / e.noise_multiplier) ** 2 for e, steps in published if isinstance(e, Gaussian)
    ]
    pure = [steps * e.epsilon for e, steps in published if not isinstance(e, Gaussian)]
    if delta == 0:
        return math.inf if squares else math.fsum(pure) - 1e-12
    parts = []
    for epsilon, count in Counter(pure).items():
        single = losses.from_privacy_parameters(
            common.DifferentialPrivacyParameters(epsilon, 0.0), value_discretization_interval=WIDTH
        )
        parts.append(single.self_compose(count))
    if squares:
        noise = 1 / math.sqrt(math.fsum(squares))
        parts.append(
            losses.from_gaussian_mechanism(
                noise, value_discretization_interval=WIDTH, use_connect_dots=False
            )
        )
    if not parts:
        return 0.0
    total = parts[0]
    for part in parts[1:]:
        total = total.compose(part)
    # Every release's losses were rounded up, by one width at most.
    return total.get_epsilon_for_delta(delta) - (len(pure) + 2) * WIDTH


class Attack:
    """One file, what was published from it, and who promised what about it."""

    def __init__(self, path, seed, rule):
        self.path, self.chance, self.rule = path, np.random.default_rng(seed), rule
        self.habit = np.roll([0.7, 0.15, 0.15], seed)  # the adjacency that most runs state
        self.total = (1.5, 0.0 if rule == "pure" else 1e-5)
        Ledger(path, *self.total, rule="auto" if rule == "pure" else rule).close()
        self.published = []  # (data, unit, adjacency, event)
        self.counted = {}  # unit → adjacency of its first run
        self.dead = []
        self.refused = self.accepted = 0

    def events(self):
        count = int(self.chance.integers(1, 5))
        pure = self.rule == "pure" or self.chance.random() < 0.4
        if pure:
            return [Step(float(self.chance.choice([0.05, 0.1, 0.3])))] * count
        return [Gaussian(float(self.chance.choice([3.0, 6.0, 11.0, 23.0])))] * count

    def play(self):
        step = self.chance.random()
        if step < 0.1:
            with Ledger(self.path) as ledger:
                ledger.recover()
                self.dead = []
        elif step < 0.25 and self.dead:
            self.go_on(*self.dead.pop())
        else:
            self.run()

    def run(self):
        line = {
            "unit": str(self.chance.choice(["task", "row"])),
            "adjacency": ADJACENCIES[int(self.chance.choice(3, p=self.habit))],
            "data": NAMES[int(self.chance.integers(3))],
        }
        events = self.events()
        with Ledger(self.path) as ledger:
            head = ledger.head
            try:
                reservation = ledger.reserve(events, **line)
            except (BudgetExceeded, InvalidInput):
                self.refused += 1
                assert ledger.head == head
                return
            self.accepted += 1
            self.counted.setdefault(line["unit"], line["adjacency"])
            self.release(reservation, events, line)

    def release(self, reservation, events, line):
        for event in events[: int(self.chance.integers(len(events) + 1))]:
            reservation.charge(event)
            self.published.append((line["data"], line["unit"], line["adjacency"], event))
        if self.chance.random() < 0.3:  # killed here
            self.dead.append((reservation.run, events, line))
        else:
            reservation.close()

    def go_on(self, run, events, line):
        with Ledger(self.path) as ledger:
            reservation = ledger.resume(run)
            left = sum(sum(counts.values()) for counts in reservation.left.values())
            self.release(reservation, events[:left], line)

    def cost(self, name, unit):
        """Return the truth for whoever has a unit in data ``name``."""
        counts = []
        for data, of, adjacency, event in self.published:
            if data not in (None, name) or (unit == "task" and of == "row"):
                continue
            target = self.counted[of]
            steps = 1 if adjacency == target else 2
            if of != unit:  # one row changed is one task replaced
                steps = 1 if adjacency == "replace-one" else 2
            counts.append((event, steps))
        return counts

    def check(self):
        with Ledger(self.path) as ledger:
            ledger.verify()
            for name in ("a", "b", "elsewhere"):
                for unit in ("task", "row"):
                    spent = ledger.spent(name, unit)
                    assert truth(self.cost(name, unit), spent.delta) <= spent.epsilon + 1e-9
            for line in ledger.lines():
                name = "elsewhere" if line.data == "unnamed" else line.data
                held = truth(self.cost(name, line.unit), self.total[1])
                assert held <= self.total[0] + 1e-9
                assert line.spent.epsilon <= self.total[0]


@pytest.mark.parametrize("rule", ["auto", "basic", "gdp", "rdp", "pure"])
@pytest.mark.parametrize("seed", range(3))
def test_no_sequence_of_calls_brings_the_ledger_below_the_truth(tmp_path, rule, seed):
    attack = Attack(tmp_path / "ledger.db", seed, rule)
    for turn in range(24):
        attack.play()
        if turn % 8 == 7:
            attack.check()
    assert attack.refused > 0
    assert attack.accepted > 1
    assert attack.published


FITS = {
    "logistic": lambda e, ledger: tacit.PrivateLogisticRegression(e, 0.0, ledger=ledger),
    "target": lambda e, ledger: tacit.TransferClassifier(e, 0.0, ledger=ledger),
    "source": lambda e, ledger: tacit.FeatureSplitTransferClassifier(e, 0.0, ledger=ledger),
    "tasks": lambda e, ledger: tacit.LowRankClassifier(e, delta=0.0, ledger=ledger),
    "both": lambda e, ledger: tacit.GroupSparseClassifier(
        e, delta=0.0, epsilon_rows=0.5 * e, ledger=ledger
    ),
}


@pytest.mark.parametrize("seed", range(3))
def test_no_sequence_of_fits_of_the_same_rows_costs_more_than_the_ledger_says(tmp_path, seed):
    chance = np.random.default_rng(seed)
    X = chance.standard_normal((120, 4))
    y, tasks = (X[:, 0] > 0).astype(int), np.repeat(np.arange(6), 20)
    path, rows, refused = tmp_path / "ledger.db", 0.0, 0
    Ledger(path, 1.0, 0.0).close()
    for _ in range(10):
        name, epsilon = str(chance.choice(list(FITS))), float(chance.choice([0.125, 0.25, 0.5]))
        with Ledger(path) as ledger:
            head, model = ledger.head, FITS[name](epsilon, ledger)
            try:
                if name == "source":
                    model.fit_source(X, y)
                else:
                    model.fit(X, y, tasks=tasks)
                rows += 0.5 * epsilon if name == "both" else epsilon
            except BudgetExceeded:
                refused += 1
                assert ledger.head == head
            assert rows <= ledger.spent(unit="row").epsilon + 1e-9
    assert rows <= 1.0
    assert refused > 0
