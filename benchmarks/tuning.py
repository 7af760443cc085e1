"""What choosing among candidates costs: accounted selection against naive cross-validation.

Prints, for a total budget of (ε, 1e-6), the noise each run needs as a multiple of the noise of a
single run that chooses nothing. Naive cross-validation charges every candidate and the final fit.
"""

from __future__ import annotations

from dp_accounting import dp_event
from rich.console import Console
from rich.table import Table

from tacit.privacy import calibrate
from tacit.tuning import selection_noise

DELTA = 1e-6


def naive(epsilon: float, candidates: int) -> float:
    """Return the noise multiplier of each of ``candidates`` + 1 runs that compose to ε."""

    def event(noise: float) -> dp_event.DpEvent:
        return dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(noise), candidates + 1)

    return calibrate(epsilon, DELTA, event=event)


def main() -> None:
    table = Table("ε", "candidates", "one run, no choice", "accounted selection", "naive", "saved")
    for epsilon in (0.5, 1.0, 4.0):
        alone = calibrate(epsilon, DELTA)
        for candidates in (5, 10, 30, 100):
            # A mean of as many runs as candidates sees most of them.
            ours = selection_noise(epsilon, DELTA, float(candidates)) / alone
            theirs = naive(epsilon, candidates) / alone
            cells = (ours, theirs, theirs / ours)
            table.add_row(f"{epsilon:g}", str(candidates), "1", *(f"{c:.2f}×" for c in cells))
    Console().print(table)


if __name__ == "__main__":
    main()
