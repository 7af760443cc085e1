"""The figures of the asynchronous paper: run, record, draw, check."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from experiments import Course, course, load

from tacit.errors import PrivacyWarning
from tacit.reproduce import Check

__all__ = ["run"]


def run(config: dict[str, Any], *, quick: bool, out: Path, progress: bool) -> list[Check]:
    """Run a figure, write its CSV and its picture, and return what was expected of it."""
    turns = int(config["quick_turns" if quick else "turns"])
    data = load(config["data"], seed=0)
    wanted = [("open", np.inf)]
    wanted += [("printed", float(epsilon)) for epsilon in config["printed"]]
    wanted += [("sound", float(epsilon)) for epsilon in config["sound"]]
    courses = []
    for scheme, epsilon in wanted:
        if progress:
            print(f"{config['figure']}: {scheme}, ε = {epsilon:g}", flush=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)  # the figure says which one leaks
            options = config["options"]
            courses.append(course(data, scheme, epsilon, turns=turns, options=options, seed=0))
    _write(courses, out / f"{config['figure']}.csv")
    _draw(config, courses, out / f"{config['figure']}.png")
    return _checks(config, courses)


def _write(courses: list[Course], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        names = [f"error_{number + 1}" for number in range(len(courses[0].errors[0]))]
        head = ("scheme", "epsilon_step", "epsilon_total", "turn", "objective", "rank")
        writer.writerow([*head, *names])
        for one in courses:
            for turn, value, rank, errors in zip(
                one.turns, one.objective, one.rank, one.errors, strict=True
            ):
                spent = (f"{one.epsilon_step:.6g}", f"{one.epsilon_total:.6g}")
                shown = [f"{error:.6g}" for error in errors]
                writer.writerow([one.scheme, *spent, turn, f"{value:.8g}", rank, *shown])


def _label(one: Course) -> str:
    if one.scheme == "open":
        return "no privacy"
    leaks = " (leaks)" if one.scheme == "printed" else ""
    return f"{one.scheme}{leaks}: ε {one.epsilon_step:.2g} a step, {one.epsilon_total:.3g} in all"


def _draw(config: dict[str, Any], courses: list[Course], path: Path) -> None:
    if config["show"] == "objective":
        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
        for one in courses:
            line = "--" if one.scheme == "printed" else "-"
            left.plot(one.turns, one.objective, line, label=_label(one))
            right.plot(one.turns, one.rank, line)
        left.set(xlabel="turns of a task", ylabel="objective", yscale="log")
        right.set(xlabel="turns of a task", ylabel="rank of P")
        left.legend(fontsize=6)
    else:
        figure, axes = plt.subplots(
            1, len(courses), figsize=(3 * len(courses), 3), sharey=True, layout="constrained"
        )
        for axis, one in zip(np.atleast_1d(axes), courses, strict=True):
            axis.plot(one.turns, one.errors)
            axis.set_title(_label(one), fontsize=6)
            axis.set(xlabel="turns of a task")
        np.atleast_1d(axes)[0].set(ylabel=config["error"])
    figure.suptitle(config["title"], fontsize=9)
    figure.savefig(path, dpi=140)
    plt.close(figure)


def _checks(config: dict[str, Any], courses: list[Course]) -> list[Check]:
    """Return the paper's claims, by name, as this run found them."""
    free = courses[0]
    printed = [one for one in courses if one.scheme == "printed"]
    sound = [one for one in courses if one.scheme == "sound"]
    claimed = [f"{one.epsilon_step:.3g} a step, {one.epsilon_total:.4g} in all" for one in printed]
    ends = [f"ε = {one.epsilon_total:.3g}: {np.mean(one.errors[-1]):.3g}" for one in sound]
    last, before = free.objective[-1], free.objective[-2]
    checks = [
        Check(
            "converges without noise: the objective ends below where it began, and settles",
            last < free.objective[0] and abs(last - before) < 0.02 * last,
        ),
        Check(
            f"per-iteration ε is not the run's: the printed scheme claims {'; '.join(claimed)}",
            all(one.epsilon_total > 10 * one.epsilon_step for one in printed),
        ),
        Check(
            f"larger budgets end lower (sound scheme, errors of five tasks): {'; '.join(ends)}",
            float(np.mean(sound[-1].errors[-1])) <= 1.02 * float(np.mean(sound[0].errors[-1])),
        ),
    ]
    if "rank" in config:
        checks.append(
            Check(f"rank of P stays near 3 without noise: {free.rank[-1]}", free.rank[-1] <= 8)
        )
    return checks
