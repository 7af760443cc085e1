"""The sections on results: errors by task, and a party's own model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tacit._types import AnyArray, Array
from tacit.report.baselines import THESE_ROWS
from tacit.report.evaluation import Evaluation
from tacit.report.markup import (
    Markup,
    aligned,
    join,
    number,
    percent,
    plural,
    shortened,
    tag,
)
from tacit.report.measures import Measure
from tacit.report.pictures import histogram, reliability_plot
from tacit.report.svg import Axis, axis_lane, bar, dots, legend
from tacit.report.tables import Cell, folded, table
from tacit.report.visible import Facts

__all__ = ["learned_section", "own_section", "weights_table"]

Section = tuple[str, str, Markup]

_HEADING = "What was learned, and for whom"
_MOST_ROWS = 200  # a longer table is cut to its two ends
_END_ROWS = 15
_FEW_ROWS = 50  # fewer say nothing about shares by tenths
_MOST_FEATURES = 20


def _format(evaluation: Evaluation) -> Callable[[float], str]:
    """Return how errors are written: per cent, or numbers that line up at the point."""
    if evaluation.classification:
        return lambda value: f"{100 * value:.1f} %".replace("-", "−")
    return aligned([*evaluation.errors.ravel().tolist(), *evaluation.total.tolist()])


def learned_section(facts: Facts) -> Section | None:
    """Return errors by task, or who can see them if no rows to evaluate on were given."""
    evaluation = facts.evaluation
    if evaluation is None:
        return _unevaluated(facts)
    parts = [_intro(evaluation), _totals(evaluation), _base_rate(evaluation)]
    parts += [_calibration(evaluation), _compared_how(evaluation)]
    if evaluation.refused:
        left_out = ", ".join(evaluation.refused)
        parts.append(
            tag(
                "p",
                f"Left out: {left_out}. Fitted on other parties’ rows without protection, so its "
                "answers are not for one party to see.",
                class_="note",
            )
        )
    if len(evaluation.names) > 1:
        parts += _by_task(evaluation)
    return "learned", _HEADING, join(parts)


def _unevaluated(facts: Facts) -> Section | None:
    if facts.party is not None:
        return None
    text = (
        f"{plural(facts.n_tasks, 'task')} learned. Every task has a model of its own, which "
        "belongs to it and is not on this page; nor is how well each does, which only its own "
        "rows can tell. A party sees both in its own report."
    )
    return "learned", _HEADING, tag("p", text)


def _intro(evaluation: Evaluation) -> Markup:
    total = int(np.sum(evaluation.n_rows))
    what = (
        "Share of wrong answers"
        if evaluation.classification
        else "Root mean squared error, in the target’s units,"
    )
    tasks = len(evaluation.names)
    where = f" of {plural(tasks, 'task')}" if tasks > 1 else ""
    return tag("p", f"{what} on {plural(total, 'row')}{where}; less is better.")


def _totals(evaluation: Evaluation) -> Markup:
    axis = Axis(0.0, float(evaluation.total.max()) or 1.0)
    rows = []
    for position, (name, protected) in enumerate(
        zip(evaluation.methods, evaluation.protected, strict=True)
    ):
        lane = Cell(bar(axis, evaluation.total[position], other=position > 0), class_="lane")
        cells = [_measured(measure, position) for measure in evaluation.measures]
        rows.append((name, lane, *cells, Cell(protected, class_="quiet")))
    columns = [("Method", "text"), ("", "lane")]
    columns += [(measure.name, "num") for measure in evaluation.measures]
    columns.append(("Protection", "text"))
    drawn = "tasks" if evaluation.by_task else "rows"
    caption = f"Over all rows, with 95 % intervals from drawing {drawn} again"
    return table(caption, columns, rows, label="measures over all rows")


def _measured(measure: Measure, position: int) -> Cell:
    value, low, high = (
        float(ends[position]) for ends in (measure.values, measure.low, measure.high)
    )
    scale, unit = (100.0, " %") if measure.percent else (1.0, "")
    written = aligned([scale * part for part in (value, low, high)])
    if not np.isfinite(value):
        return Cell.of(value, "not known")
    ends = ""
    if np.isfinite(low) and np.isfinite(high):
        ends = f"{written(scale * low)} to {written(scale * high)}"
    shown = join([f"{written(scale * value)}{unit}", tag("span", ends, class_="ends")])
    return Cell(shown, value, "num")


def _base_rate(evaluation: Evaluation) -> Markup | None:
    if evaluation.base_rate is None:
        return None
    label, share = evaluation.base_rate
    text = (
        f"Base rate: {percent(share)} of the rows are {shortened(label)}; answering that always "
        f"would be wrong for {percent(1 - share)}."
    )
    return tag("p", text, class_="note")


def _calibration(evaluation: Evaluation) -> Markup | None:
    if len(evaluation.reliability) < 2 or int(evaluation.n_rows.sum()) < _FEW_ROWS:
        return None
    caption = (
        "Calibration of this model: of the rows that were given a probability (across), the share "
        "for which it happened (up), by tenths. On the dashed line, probabilities mean what they "
        "say."
    )
    return tag("figure", reliability_plot(evaluation.reliability), tag("figcaption", caption))


def _compared_how(evaluation: Evaluation) -> Markup | None:
    if not evaluation.crossed:
        return None
    names = " and ".join(name.removesuffix(THESE_ROWS) for name in evaluation.methods[1:])
    text = (
        f"{names.capitalize()} models were learned from these same rows, in folds: each answer "
        "comes from a model that did not see the row. They had other rows to learn from than this "
        "model; hand in the rows it was fitted on for a comparison like for like."
    )
    if evaluation.left_out:
        text += f" Left out: {plural(evaluation.left_out, 'row')} of tasks with one row."
    return tag("p", text, class_="note")


def _by_task(evaluation: Evaluation) -> list[Markup]:
    gain = evaluation.gain
    key = evaluation.errors[0] if gain is None else -gain
    order = np.argsort(key, kind="stable")
    parts = []
    cut = len(order) > _MOST_ROWS
    if cut:
        parts.append(_distribution(evaluation))
        order = np.concatenate([order[:_END_ROWS], order[-_END_ROWS:]])
    parts.append(legend(evaluation.methods))
    parts.append(_task_table(evaluation, order, cut=cut))
    return parts


def _distribution(evaluation: Evaluation) -> Markup:
    gain = evaluation.gain
    scale = 100.0 if evaluation.classification else 1.0
    unit = " (percentage points)" if evaluation.classification else ""
    if gain is None:
        values, label = evaluation.errors[0], f"error of a task{unit}"
    else:
        values, label = gain, f"less error than {evaluation.methods[1]}{unit}"
    title = f"How {plural(len(values), 'task')} fare"
    chart = histogram(scale * values, title=title, label=label)
    caption = tag("figcaption", f"{title}: the number of tasks by {label}.")
    return tag("figure", chart, caption)


def _task_table(evaluation: Evaluation, order: AnyArray, *, cut: bool) -> Markup:
    errors = evaluation.errors[:, order]
    axis = Axis.of(errors)
    gain = evaluation.gain
    columns = [("Task", "text"), (axis_lane(axis), "lane")]
    columns += [(name, "num") for name in evaluation.methods]
    if gain is not None:
        columns.append((f"Gain over {evaluation.methods[1]}", "num"))
    columns.append(("Rows", "num"))
    written = _format(evaluation)
    rows = [_task_row(evaluation, axis, int(task), written) for task in order]
    by = "error" if gain is None else f"gain over {evaluation.methods[1]}"
    caption = f"Error by task, sorted by {by}"
    if cut:
        caption = (
            f"The {_END_ROWS} tasks with the best {by} and the {_END_ROWS} with the worst, of "
            f"{plural(len(evaluation.names), 'task')}"
        )
    whole = table(
        caption, columns, rows, label="tasks", sortable=True, filterable=len(order) > _END_ROWS
    )
    return folded(whole, len(rows), "task")


def _task_row(
    evaluation: Evaluation, axis: Axis, task: int, written: Callable[[float], str]
) -> Sequence[object]:
    errors = [float(value) for value in evaluation.errors[:, task]]
    name = evaluation.names[task]
    cells = [
        Cell(tag("span", shortened(name, 40), title=str(name) if len(str(name)) > 40 else None)),
        Cell(dots(axis, errors), class_="lane"),
        *(Cell.of(value, written(value)) for value in errors),
    ]
    if evaluation.gain is not None:
        gain = float(evaluation.gain[task])
        tone = "good" if gain > 0 else "bad" if gain < 0 else ""
        cells.append(Cell.of(gain, f"{'+' if gain > 0 else ''}{written(gain)}", tone))
    cells.append(Cell.of(int(evaluation.n_rows[task])))
    return cells


def own_section(facts: Facts) -> Section | None:
    """Return the party's own model beside what was released of all."""
    if facts.party is None or facts.own_coef is None:
        return None
    intro = tag(
        "p",
        "Weights of the features in this party’s own model, largest first. They were computed at "
        "home from its own rows and the releases, and are private to it.",
    )
    intercept = "" if facts.own_intercept is None else ", ".join(map(number, facts.own_intercept))
    return (
        "own",
        "Your own model",
        join(
            [
                intro,
                weights_table(facts, facts.own_coef, "Weights of your model"),
                tag("p", f"Intercept: {intercept}.", class_="note"),
            ]
        ),
    )


def weights_table(facts: Facts, coef: Array, caption: str, names: Sequence[str] = ()) -> Markup:
    """Return signed bars by feature for one or several weight vectors ``coef`` (k, d)."""
    size = np.sqrt((coef**2).sum(axis=0))
    order = np.argsort(-size, kind="stable")[:_MOST_FEATURES]
    extent = float(np.abs(coef[:, order]).max(initial=0.0)) or 1.0
    axis = Axis(-extent, extent)
    heads = list(names) or [f"class {label}" if label else "Weight" for label in facts.outputs]
    shown = min(len(coef), 4)
    written = aligned(coef[:shown, order].ravel().tolist())
    columns = [("Feature", "text")]
    for head in heads[:shown]:
        columns += [("", "lane"), (head, "num")]
    rows = []
    for feature in order:
        cells = [Cell(shortened(facts.feature_names[feature], 40))]
        for vector in coef[:shown]:
            value = float(vector[feature])
            cells += [Cell(bar(axis, value), class_="lane"), Cell.of(value, written(value))]
        rows.append(cells)
    if len(order) < coef.shape[1]:
        caption += f" (the {len(order)} largest of {coef.shape[1]} features)"
    if shown < len(coef):
        caption += f" (the first {shown} of {len(coef)} classes)"
    return table(caption, columns, rows, label=caption.split(" (")[0].lower(), sortable=True)
