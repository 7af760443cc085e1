"""Results of a figure: one number for every panel, method, level and run."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tacit._types import Array

__all__ = ["Key", "Record"]

Key = tuple[str, str, str]  # panel, method, level
_RUNS = ("panel", "method", "x", "run", "value")
_WIDE = ("panel", "method", "x", "values")


@dataclass
class Record:
    """Values by key and run; with a file behind it, every value is written as it arrives.

    An interrupted figure therefore continues where it stopped: delete the file to start anew.
    """

    values: dict[Key, dict[int, float]] = field(default_factory=dict)
    path: Path | None = None

    @classmethod
    def open(cls, path: Path) -> Record:
        """Return the record that is kept at ``path``, with what is in it already."""
        record = cls.read(path) if path.exists() else cls()
        record.path = path
        return record

    @classmethod
    def read(cls, path: Path) -> Record:
        """Read either form: a line a run, or a line a method with the values of all runs."""
        record = cls()
        with path.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                key = (row["panel"], row["method"], row["x"])
                if row.get("values"):
                    numbers = enumerate(map(float, row["values"].split()))
                    record.values.setdefault(key, {}).update(numbers)
                elif row.get("value"):
                    record.values.setdefault(key, {})[int(row["run"])] = float(row["value"])
        return record

    def has(self, key: tuple[str, str, str | None], run: int) -> bool:
        """Say whether this was measured already; at any level, if that is None."""
        panel, method, x = key
        if x is not None:
            return run in self.values.get((panel, method, x), {})
        return any(run in runs for k, runs in self.values.items() if k[:2] == (panel, method))

    def add(self, key: Key, run: int, value: float) -> None:
        """Take a value in, and write it to the file."""
        self.values.setdefault(key, {})[run] = float(value)
        if self.path is None:
            return
        new = not self.path.exists()
        with self.path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            if new:
                writer.writerow(_RUNS)
            writer.writerow((*key, run, f"{value:.6g}"))

    def save(self, path: Path) -> None:
        """Write the short form: a line a method and level."""
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(_WIDE)
            for key, runs in self.values.items():
                texts = [f"{value:.4g}" for _, value in sorted(runs.items())]
                writer.writerow((*key, " ".join(texts)))

    def of(self, panel: str, method: str, x: Any = "all") -> Array:
        """Return the values of all runs, in order; those without a level where there is none."""
        runs = self.values.get((panel, method, str(x)))
        if runs is None:
            runs = self.values.get((panel, method, "all"), {})
        return np.array([value for _, value in sorted(runs.items())])

    def methods(self, panel: str) -> list[str]:
        """Return the methods of a panel, in the order in which they came."""
        return list(dict.fromkeys(key[1] for key in self.values if key[0] == panel))

    def levels(self, panel: str, method: str) -> list[str]:
        """Return the levels at which a method was measured, rising if they are numbers."""
        levels = [key[2] for key in self.values if key[:2] == (panel, method)]
        try:
            return sorted(levels, key=float)
        except ValueError:
            return levels

    def changed(self, change: Callable[[Key, int, float], float]) -> Record:
        """Return a copy with every value changed: what a mutation test needs."""
        changed: Mapping[Key, dict[int, float]] = {
            key: {run: change(key, run, value) for run, value in runs.items()}
            for key, runs in self.values.items()
        }
        return Record(dict(changed))
