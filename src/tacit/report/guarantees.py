"""The sections on privacy: statement, cost, what is shared, the task map, the audit."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tacit._types import Array
from tacit.privacy.statement import Statement
from tacit.report.cost import Account
from tacit.report.markup import Markup, join, number, percent, plural, shortened, tag, tiny, whole
from tacit.report.pictures import audit_plot, map_plot, spectrum_plot
from tacit.report.releases import Spectrum, TaskMap
from tacit.report.results import Section, weights_table
from tacit.report.svg import Axis, bar
from tacit.report.tables import Cell, details, facts_list, folded, table
from tacit.report.visible import Facts

__all__ = ["audit_section", "cost_section", "map_section", "privacy_section", "shared_section"]

_MOST_STEPS = 60
_MOST_NEIGHBOURS = 60
_ACCOUNTANTS = {
    "gdp": "exact Gaussian composition (gdp)",
    "optimal": "optimal composition of pure-ε steps",
    "pld": "privacy loss distributions (pld)",
    "rdp": "Rényi accounting (rdp)",
    "zcdp": "zero-concentrated accounting (zcdp)",
}


def privacy_section(facts: Facts) -> Section:
    """Return the statement in words and field by field."""
    statement = facts.statement
    pairs: list[tuple[str, object]] = [
        ("Protected unit", "a whole task" if statement.unit == "task" else "one row"),
        ("Definition", statement.definition),
        ("Neighbours", str(statement.adjacency or "none")),
        ("ε", number(statement.epsilon, 4)),
        ("δ", tiny(statement.delta)),
        ("Accountant", _ACCOUNTANTS.get(statement.accountant, statement.accountant)),
        ("Mechanisms", ", ".join(statement.mechanisms) or "none"),
        ("Releases", str(statement.n_releases)),
        ("Coordinating server", statement.curator),
        ("Sound mechanisms", "yes" if statement.sound else "no"),
        ("Secret noise", "no: a fixed seed" if statement.seeded else "yes"),
    ]
    if not statement.private:
        pairs = [pair for pair in pairs if pair[0] not in ("δ", "Secret noise", "Accountant")]
    if statement.n_units is not None:
        pairs.insert(1, ("Number of units", whole(statement.n_units)))
    parts = [tag("p", _in_words(statement), class_="statement"), facts_list(pairs)]
    for heading, texts in (
        ("Assumed", statement.assumptions),
        ("Not protected", statement.not_protected),
    ):
        if texts:
            listed = tag("ul", join(tag("li", text) for text in texts))
            parts += [tag("h3", heading), listed]
    return "privacy", "Who is protected, and how", join(parts)


def _in_words(statement: Statement) -> str:
    """Return the explanation without what is listed below it or in a banner."""
    return replace(statement, assumptions=(), not_protected=(), warnings=()).explain()


def cost_section(facts: Facts) -> Section | None:
    """Return the budget release by release, and what a ledger has left."""
    parts = []
    if facts.steps and facts.statement.private:
        parts.append(_steps(facts))
    elif facts.statement.private and not facts.statement.n_releases:
        parts.append(tag("p", "Nothing was released, so nothing was spent."))
    if not facts.releases_kept and facts.statement.n_releases:
        note = "The releases themselves are not kept with this model; only their list is shown."
        parts.append(tag("p", note, class_="note"))
    if facts.account is not None:
        parts.append(_ledger(facts.account))
    return ("cost", "What it cost", join(parts)) if parts else None


def _steps(facts: Facts) -> Markup:
    known = [step.epsilon for step in facts.steps if step.epsilon is not None]
    axis = Axis(0.0, max([*known, facts.statement.epsilon, 1e-9]))
    stride = math.ceil(len(facts.steps) / _MOST_STEPS)
    kept = [s for s in facts.steps if (len(facts.steps) - s.number) % stride == 0]
    rows, before = [], 0.0
    for step in kept:
        label = step.label if step.sound else f"{step.label} (leaks)"
        cells = [Cell(shortened(label, 60)), Cell(step.shape, class_="num")]
        cells.append(Cell("–", class_="num") if step.scale is None else Cell.of(step.scale))
        if known:
            now = before if step.epsilon is None else step.epsilon
            cells.append(Cell(bar(axis, now, before=before), class_="lane"))
            shown = "–" if step.epsilon is None else number(now)
            cells.append(Cell.of(now, shown))
            before = now
        rows.append(cells)
    columns = [("Release", "text"), ("Size", "num"), ("Noise scale", "num")]
    if known:
        columns += [("", "lane"), ("ε so far", "num")]
    caption = "The budget by release: what each one added, and ε of all releases so far"
    if stride > 1:
        caption += f" (every {stride}th of {len(facts.steps)} releases)"
    whole = table(caption, columns, rows, label="releases")
    return folded(whole, len(rows), f"release, up to ε = {number(facts.statement.epsilon)}")


def _ledger(account: Account) -> Markup:
    limit = number(account.epsilon)
    total = f"ε = {limit}" if math.isfinite(account.epsilon) else "no limit"
    if account.delta:
        total += f", δ = {tiny(account.delta)}"
    intro = tag("p", f"Ledger {account.name}: each line may spend {total} in all.")
    if not account.lines:
        return join([tag("h3", "What is left"), intro, tag("p", "Nothing was spent yet.")])
    rows = []
    for line in account.lines:
        high = account.epsilon if math.isfinite(account.epsilon) else line.spent.epsilon
        axis = Axis(0.0, max(high, 1e-9))
        name = f"{line.data}, {line.unit}, {line.adjacency}"
        cells = [Cell(shortened(name, 60)), Cell(bar(axis, line.spent.epsilon), class_="lane")]
        cells += [Cell.of(line.spent.epsilon), Cell.of(line.left.epsilon)]
        rows.append([*cells, Cell.of(line.left.delta, tiny(line.left.delta))])
    columns = [("Line", "text"), ("", "lane"), ("ε spent", "num"), ("ε left", "num")]
    columns.append(("δ left", "num"))
    body = table(
        "The budget by line (data, unit, neighbours), at the ledger’s own δ",
        columns,
        rows,
        label="budget lines",
    )
    return join([tag("h3", "What is left"), intro, body])


def shared_section(facts: Facts) -> Section | None:
    """Return directions, features or the mean model, whatever was released."""
    shared, parts = facts.shared, []
    if facts.shared_coef is not None:
        text = "One model for everybody, which also answers tasks that were not there."
        if not facts.statement.holds:
            text += " It is not protected."
        parts += [tag("p", text), weights_table(facts, facts.shared_coef, "The shared model")]
    if shared.spectrum is not None:
        parts += _directions(facts, shared.spectrum)
    if shared.feature_norms is not None:
        parts += _features(facts, shared.feature_norms)
    if shared.mean_model is not None and facts.shared_coef is None:
        text = "The average of what tasks sent, as it was released, noise included."
        parts += [tag("p", text), weights_table(facts, shared.mean_model, "The released average")]
    if facts.released_coef is not None:
        parts += _released(facts, facts.released_coef)
    if not parts:
        return None
    return "shared", "What the tasks share", join(parts)


def _directions(facts: Facts, spectrum: Spectrum) -> list[Markup]:
    out, total = spectrum.n_standing_out, len(spectrum.values)
    if spectrum.band is None:
        text = f"Models were compared along {plural(total, 'direction')}."
    elif out:
        verb = "stands" if out == 1 else "stand"
        text = (
            f"{plural(out, 'direction')} of {total} {verb} out of the noise: along these the "
            "tasks’ models have more in common than the noise can explain. The rest could be noise."
        )
    else:
        text = (
            "No direction stands out of the noise: at this budget the tasks’ models show nothing "
            "in common."
        )
    chart = spectrum_plot(spectrum.values, spectrum.band, out)
    band = " The shaded band is what noise alone reaches." if spectrum.band else ""
    caption = tag("figcaption", f"Eigenvalues of the released second moment of models.{band}")
    parts = [tag("p", text), tag("figure", chart, caption)]
    shown = min(out, 3) if spectrum.band is not None else min(total, 3)
    if shown:
        vectors = spectrum.vectors[:, :shown].T
        # A direction has no sign; its largest weight is shown as positive.
        largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=1)[:, None], axis=1)
        vectors = vectors * np.where(largest < 0, -1.0, 1.0)
        names = [f"Direction\u00a0{rank + 1}" for rank in range(shown)]
        parts.append(weights_table(facts, vectors, "Features in the shared directions", names))
    return parts


def _features(facts: Facts, norms: Array) -> list[Markup]:
    threshold = facts.shared.feature_threshold
    text = "How much all tasks together use each feature: released squared weights, with noise."
    if threshold is not None:
        out = int((norms > threshold).sum())
        text += (
            f" {plural(out, 'feature')} of {len(norms)} exceed the average by more than noise "
            "would explain."
        )
    heads = ["Use by all tasks"]
    return [tag("p", text), weights_table(facts, norms[None], "Shared features", heads)]


def _released(facts: Facts, coef: Array) -> list[Markup]:
    if len(coef) == 1:
        text = "The model itself was released, noise included, so anybody may read it."
        return [tag("p", text), weights_table(facts, coef[0], "The released model")]
    text = (
        "Every task’s model was released, noise included. Below is their average; rows are the "
        "protected unit, so the models themselves may be read by anybody."
    )
    return [tag("p", text), weights_table(facts, coef.mean(axis=0), "Average released model")]


def map_section(facts: Facts) -> Section | None:
    """Return the map of tasks from released quantities, or why there is none."""
    if facts.n_tasks < 2:
        return None
    task_map = facts.shared.task_map
    if task_map is None:
        if facts.shared.per_task:
            text = (
                "Every task released its model with noise, and nothing stands out of that noise: "
                "at this budget the released models do not show which tasks are alike."
            )
        else:
            text = (
                "This run released nothing about any single task, so there is no map of tasks "
                "that may be shown. Similarities of the private models stay private."
            )
        return "map", "Task map", tag("p", text)
    return "map", "Task map", join(_map(facts, task_map))


def _map(facts: Facts, task_map: TaskMap) -> list[Markup]:
    known = len(facts.task_names) == len(task_map.points)
    names = [shortened(name, 22) for name in facts.task_names] if known else []
    chart = map_plot(task_map.points, names, facts.own, "Tasks by similarity")
    share, *others = (percent(value) for value in task_map.explained)
    up = f"up: the second ({others[0]})" if others else "no second one does, so tasks are stacked"
    caption = (
        f"Across: the first shared direction ({share} of what stands out of the noise); {up}. "
        "Places come from the models that tasks released with noise."
    )
    parts = [
        tag("p", "Near means alike, in the eyes of everybody: nothing private was used."),
        tag("figure", chart, tag("figcaption", caption)),
    ]
    if known and 2 <= len(names) <= _MOST_NEIGHBOURS:
        parts.append(details("Most similar tasks, as a table", _neighbours(facts, task_map)))
    return parts


def _neighbours(facts: Facts, task_map: TaskMap) -> Markup:
    cosines = task_map.similarity(range(len(facts.task_names)))
    others = cosines - 2 * np.eye(len(cosines))
    rows = []
    for task, name in enumerate(facts.task_names):
        near = int(others[task].argmax())
        rows.append(
            (
                Cell(shortened(name, 40)),
                Cell(shortened(facts.task_names[near], 40)),
                Cell.of(float(others[task, near])),
            )
        )
    columns = [("Task", "text"), ("Most similar", "text"), ("Cosine", "num")]
    caption = "Each task’s most similar task"
    return table(caption, columns, rows, label="most similar tasks", sortable=True)


def audit_section(facts: Facts) -> Section | None:
    """Return what attacks could prove, next to the claims."""
    if not facts.audit:
        return None
    broken = sum(point.violated for point in facts.audit)
    verdict = (
        "No attack found more than was claimed. That is no proof, but a claim that is badly "
        "wrong would show here."
        if not broken
        else f"{plural(broken, 'attack')} proved a larger privacy loss than claimed: the claim is "
        "false."
    )
    pairs = [(point.claimed, point.lower, point.violated) for point in facts.audit]
    caption = (
        "The dashed line is the claim. A dot above it would disprove it; the nearer a dot "
        "comes, the sharper was the attack."
    )
    rows = [
        (
            Cell(point.target or "attack"),
            Cell.of(point.claimed),
            Cell.of(point.lower),
            Cell("–" if point.confidence is None else percent(point.confidence), class_="num"),
            Cell("–" if point.n_trials is None else str(point.n_trials), class_="num"),
            Cell("broken" if point.violated else "holds", class_="bad" if point.violated else None),
        )
        for point in facts.audit
    ]
    columns = [("Attacked", "text"), ("Claimed ε", "num"), ("Measured ε ≥", "num")]
    columns += [("Confidence", "num"), ("Trials", "num"), ("Claim", "text")]
    chart = tag("figure", audit_plot(pairs), tag("figcaption", caption))
    listed = table("Attacks and what they proved", columns, rows, label="attacks", sortable=True)
    return "audit", "Audit", join([tag("p", verdict), chart, listed])
