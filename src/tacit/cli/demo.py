"""``tacit demo``: twenty invented hospitals, from rows to a stated privacy budget."""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from tacit.cli._output import Json, Quiet, begin, current

__all__ = ["demo"]

# Public reference values of the measurements (typical value, spread): noise is the same in every
# direction of a model, so features are brought to one size by facts that cost no privacy.
_REFERENCE = {
    "age": (68, 12),
    "emergency": (0.5, 0.5),
    "comorbidities": (2, 1.5),
    "systolic_bp": (135, 20),
    "creatinine": (95, 25),
    "haemoglobin": (130, 17),
    "albumin": (38, 5),
    "prior_admissions": (1.5, 1.2),
}
_STAY = 9, 10  # typical days of stay, and how far from them counts: public, too
_TRIALS = 20_000
# Whose data are hidden, by method: a whole party's, or single rows.
_WHOLE, _ROWS = "private MTL, whole parties", "private MTL, single rows"


@dataclass(frozen=True)
class _Setting:
    name: str
    train: Any
    test: Any
    target_bound: float


def _hospitals() -> _Setting:
    import numpy as np

    from tacit.datasets import load_hospitals

    tasks = load_hospitals().taskset()
    centre, spread = np.array([_REFERENCE[name] for name in tasks.feature_names or ()]).T
    stay = np.asarray(tasks.y) - _STAY[0]
    scaled = tasks.replace(X=(tasks.X - centre) / spread, y=stay)
    return _Setting("20 hospitals", *scaled.split(0.5, random_state=0), target_bound=_STAY[1])


def _crowd() -> _Setting:
    from tacit.datasets import make_low_rank

    made = make_low_rank(400, 12, 8, n_test_rows=20, similarity=0.9, signal=4.0, random_state=0)
    return _Setting("400 parties", made.train, made.test, target_bound=8)


def _labels(tasks: Any) -> list[Any]:
    return [tasks.names[code] for code in tasks.task_of_row.tolist()]


def _fitted(setting: _Setting, epsilon: float) -> dict[str, Any]:
    import tacit

    models = {
        "single-task": tacit.SingleTaskRegressor(),
        "pooled": tacit.PooledRegressor(),
        _WHOLE: tacit.SharedPriorRegressor(epsilon=epsilon),
        _ROWS: tacit.SharedMomentsRegressor(
            epsilon=epsilon, aggregation="trusted", target_bound=setting.target_bound
        ),
        "non-private MTL": tacit.SharedPriorRegressor(epsilon=float("inf")),
    }
    output, names = current(), _labels(setting.train)
    with output.step(setting.name) as advance:
        for number, model in enumerate(models.values()):
            advance(number, len(models))
            model.fit(setting.train.X, setting.train.y, tasks=names)
    return models


def _error(model: Any, test: Any) -> float:
    import numpy as np

    predicted = model.predict(test.X, tasks=_labels(test))
    return float(np.mean((predicted - test.y) ** 2) / np.var(test.y))


def _protected(statement: Any) -> str:
    if not statement.private:
        return "nobody"
    return f"ε = {statement.epsilon:.3g}" if statement.epsilon else "everybody: nothing leaves"


def _place(out: Path | None) -> Path:
    """Return a folder for the report: the one asked for, out/demo, or a temporary one."""
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        return out
    folder = Path("out") / "demo"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return Path(tempfile.mkdtemp(prefix="tacit-demo-"))


def demo(
    epsilon: Annotated[float, typer.Option(help="Privacy budget of the private fit.")] = 1.0,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the report; default: out/demo.")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Learn length of stay at twenty hospitals: alone, pooled, together in private."""
    output = begin(quiet=quiet, as_json=json)
    from tacit._check import positive

    positive("--epsilon", epsilon, remedy="use a finite budget, for example 1")
    settings = (_hospitals(), _crowd())
    models = [_fitted(setting, epsilon) for setting in settings]
    errors = {
        method: [
            _error(fitted[method], setting.test)
            for setting, fitted in zip(settings, models, strict=True)
        ]
        for method in models[0]
    }
    table = Table("error (MSE / variance)", *(setting.name for setting in settings), "protected")
    for method, values in errors.items():
        cells = (f"{value:.3f}" for value in values)
        table.add_row(method, *cells, _protected(models[1][method].privacy_))
    # Twenty whole parties may have said nothing: single rows are what is explained and attacked.
    statement = models[0][_ROWS].privacy_
    audited = _audited(statement, epsilon)
    page = _report(settings[0], models[0], audited, _place(out))
    output.show(
        table,
        _reading(errors, epsilon),
        "",
        f"The private run with single rows of 20 hospitals: {statement.explain()}",
        "",
        f"Audit: {audited}",
        f"Report: {page}",
    )
    output.result(
        {
            "errors": {
                setting.name: {method: values[column] for method, values in errors.items()}
                for column, setting in enumerate(settings)
            },
            "epsilon": statement.epsilon,
            "audit": audited.to_dict(),
            "report": str(page),
        }
    )


def _kept(errors: dict[str, list[float]], method: str, column: int) -> str:
    """Return the share of what learning together gains that a private method keeps."""
    alone, free = (errors[name][column] for name in ("single-task", "non-private MTL"))
    gain = (alone - errors[method][column]) / (alone - free) if alone > free else 0.0
    return f"{100 * max(0.0, gain):.0f} %"


def _reading(errors: dict[str, list[float]], epsilon: float) -> str:
    """Say in words what the table shows about the price of privacy."""
    return (
        f"Of what learning together gains over learning alone, ε = {epsilon:g} for whole parties "
        f"keeps {_kept(errors, _WHOLE, 0)} with 20 parties and {_kept(errors, _WHOLE, 1)} with "
        "400: noise that hides one party among 20 hides nearly everything, among 400 little. For "
        f"single rows it keeps {_kept(errors, _ROWS, 0)} with 20 hospitals: noise that hides one "
        "patient leaves what all patients have in common. The 400 share directions and no common "
        "model, which is what moments of rows would tell: they gain nothing by them."
    )


def _audited(statement: Any, epsilon: float) -> Any:
    """Attack the noise of the run; where nothing was said, the noise that would have been."""
    from tacit.audit import AUDITABLE, audit_mechanism

    name = next((name for name in statement.mechanisms if name in AUDITABLE), "gaussian")
    spent, delta = statement.epsilon or epsilon, statement.delta or 1e-5
    with current().step(f"attacking {name}"):
        return audit_mechanism(name, epsilon=spent, delta=delta, n_trials=_TRIALS)


def _report(setting: _Setting, models: dict[str, Any], audited: Any, folder: Path) -> Path:
    import numpy as np

    from tacit.report import write_report

    model = models[_ROWS]
    model.feature_names_in_ = np.array(list(_REFERENCE), dtype=object)
    baselines = {name: each for name, each in models.items() if each is not model}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return write_report(
            model,
            folder / "report.html",
            X=setting.test.X,
            y=setting.test.y,
            tasks=_labels(setting.test),
            baselines=baselines,
            audit=audited,
            title="Twenty invented hospitals: days of stay beyond nine",
        )
