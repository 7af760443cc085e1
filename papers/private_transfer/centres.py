"""A table in the style of Table 4: many centres, one of them the source, ε = 1 on both sides.

`heart_disease`: each of four hospitals in turn is the source, the other three are targets.
`diabetes130`: the largest specialty is the source. Scales are clinical constants (hospitals) or
come from encounters without a specialty, which play the public data (diabetes); importances are set
by hand from general clinical knowledge, or from those public encounters.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from settings import Transfer, arguments, compare, summary, write
from sklearn.linear_model import LogisticRegression

from tacit._types import AnyArray, Array
from tacit.datasets import load_diabetes130, load_heart_disease

# Centre, spread and importance of each measurement, from general clinical knowledge.
HEART = {
    "age": (55, 10, 2),
    "sex": (0.6, 0.5, 2),
    "trestbps": (130, 20, 1),
    "chol": (230, 60, 1),
    "fbs": (0.15, 0.4, 1),
    "thalach": (140, 25, 3),
    "exang": (0.4, 0.5, 4),
    "oldpeak": (1, 1.2, 4),
    "ca": (0.7, 1, 2),
}
HEART_CODES = {
    "cp": ((1, 2, 3, 4), 3),
    "restecg": ((0, 1, 2), 0.5),
    "slope": ((1, 2, 3), 1),
    "thal": ((3, 6, 7), 2),
}
LEAST_ROWS = 400


def hospitals() -> tuple[Array, AnyArray, AnyArray, Array]:
    """Return scaled rows (missing = 0, the public centre), outcome, hospital and importances."""
    data = load_heart_disease()
    columns, weights = [], []
    for position, name in enumerate(data.feature_names):
        values = np.asarray(data.X[:, position], dtype=np.float64)
        if name == "chol":
            values = np.where(values == 0, np.nan, values)
        if name in HEART:
            centre, spread, weight = HEART[name]
            columns.append(np.nan_to_num((values - centre) / spread))
            weights.append(weight)
        else:
            codes, weight = HEART_CODES[name]
            columns.extend((values == code) - 1 / len(codes) * ~np.isnan(values) for code in codes)
            weights.extend([weight] * len(codes))
    importance = np.asarray(weights, dtype=np.float64)
    return np.stack(columns, axis=1), data.y, data.tasks, importance / importance.sum()


def specialties() -> tuple[Array, AnyArray, AnyArray, Array]:
    """Return scaled first encounters, early readmission, specialty and public importances."""
    data = load_diabetes130()
    kept = data.extras["first_encounter"] & ~data.extras["expired_or_hospice"]
    X, y, tasks = np.asarray(data.X[kept], dtype=np.float64), data.y[kept], data.tasks[kept]
    public = np.asarray(tasks) == "Unspecified"
    X = (X - X[public].mean(axis=0)) / np.maximum(X[public].std(axis=0), 0.05)
    X = np.clip(X, -4, 4)
    slope = LogisticRegression(C=0.01, max_iter=500).fit(X[public], y[public]).coef_[0]
    importance = np.abs(slope) + 1e-3
    return X[~public], y[~public], np.asarray(tasks)[~public], importance / importance.sum()


def transfers(
    X: Array, y: AnyArray, tasks: AnyArray, importance: Array, source: str, target: str, seed: int
) -> Transfer:
    """Return the source's rows whole and the target's rows cut 80/20."""
    theirs, mine = np.flatnonzero(tasks == source), np.flatnonzero(tasks == target)
    mine = np.random.default_rng(seed).permutation(mine)
    cut = int(0.8 * len(mine))
    return Transfer(
        (X[theirs], y[theirs]),
        (X[mine[:cut]], y[mine[:cut]]),
        (X[mine[cut:]], y[mine[cut:]]),
        importance,
    )


def assignments() -> Iterator[tuple[str, tuple[Array, AnyArray, AnyArray, Array], str, str]]:
    """Yield data set, data, source and target of every line of the table."""
    heart = hospitals()
    names = sorted(set(np.asarray(heart[2]).tolist()))
    for source in names:
        for target in names:
            if target != source:
                yield "heart_disease", heart, source, target
    diabetes = specialties()
    found, counts = np.unique(diabetes[2], return_counts=True)
    source = str(found[np.argmax(counts)])
    for name, count in zip(found.tolist(), counts.tolist(), strict=True):
        if count >= LEAST_ROWS and name not in (source, "Other_rare"):
            yield "diabetes130", diabetes, source, name


def main() -> None:
    options = arguments(__doc__ or "")
    rows, ranks = [], []
    for data_set, data, source, target in assignments():
        runs = []
        for seed in options.seeds:
            drawn = transfers(*data, source, target, seed)
            if len(set(drawn.test[1].tolist())) == 2:
                runs.append(compare(drawn, 1.0, seed))
        found = summary(runs)
        means = {name: mean for name, (mean, _) in found.items()}
        order = sorted(means, key=means.__getitem__, reverse=True)
        ranks.append((data_set, {name: order.index(name) + 1 for name in order}))
        rows.append(
            (
                data_set,
                source,
                target,
                len(runs),
                *(f"{m:.4f} ± {s:.4f}" for m, s in found.values()),
            )
        )
        print(*rows[-1], sep=" | ")
    for data_set in ("heart_disease", "diabetes130"):
        mine = [rank for name, rank in ranks if name == data_set]
        averaged = [f"{np.mean([rank[name] for rank in mine]):.2f}" for name in means]
        rows.append((data_set, "", "averaged rank", len(mine), *averaged))
        print(*rows[-1], sep=" | ")
    write(options.out / "centres.csv", ("data", "source", "target", "runs", *means), rows)


if __name__ == "__main__":
    main()
