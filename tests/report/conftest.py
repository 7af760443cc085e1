from __future__ import annotations

import copy
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.datasets import load_hospitals
from tacit.report import write_report

VOID = {"meta", "link", "br", "hr", "input"}


class Page(HTMLParser):
    """A page taken apart; refuses unbalanced elements and repeated ids or attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.elements, self.words = text, [], []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, names)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & set(self._open):
            self.words.append(data)

    def all(self, tag: str) -> list[dict]:
        return [attrs for name, attrs in self.elements if name == tag]

    @property
    def red_banners(self) -> str:
        return " ".join(re.findall(r'<div class="banner bad"[^>]*>(.*?)</div>', self.text))

    @property
    def said(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


@pytest.fixture
def read(tmp_path):
    """Write a report and take it apart."""

    def write(model, **options) -> Page:
        path = write_report(model, tmp_path / "report.html", **options)
        return Page(Path(path).read_text(encoding="utf-8"))

    return write


@pytest.fixture(scope="session")
def hospitals():
    """Return (X, y, tasks) to fit on and to test on, as frames."""
    tasks = load_hospitals().taskset()
    parts = []
    for part in tasks.split(0.5, random_state=0):
        rows = (part.X - tasks.X.mean(axis=0)) / tasks.X.std(axis=0)
        frame = pd.DataFrame(rows, columns=list(tasks.feature_names))
        parts.append((frame, part.y, np.array(tasks.names)[part.task_of_row]))
    return tuple(parts)


@pytest.fixture(scope="session")
def _fitted(hospitals):
    (X, y, tasks), _ = hospitals
    return {
        "prior": tacit.SharedPriorRegressor(epsilon=40.0).fit(X, y, tasks=tasks),
        "relations": tacit.TaskRelationshipRegressor(epsilon=80.0, clip=1.0).fit(X, y, tasks=tasks),
        "sparse": tacit.GroupSparseRegressor(epsilon=1.0).fit(X, y, tasks=tasks),
        "low_rank": tacit.LowRankRegressor(epsilon=1.0, delta=0).fit(X, y, tasks=tasks),
        "mean": tacit.MeanRegularizedRegressor(epsilon=1.0, clip=5.0).fit(X, y, tasks=tasks),
        "single": tacit.SingleTaskRegressor().fit(X, y, tasks=tasks),
        "pooled": tacit.PooledRegressor().fit(X, y, tasks=tasks),
    }


@pytest.fixture
def fitted(_fitted):
    """Return fitted models by name, free to be changed."""
    return copy.deepcopy(_fitted)


@pytest.fixture
def evaluation(hospitals, fitted):
    """Return the arguments that make a report evaluate on the held-out rows."""
    X, y, tasks = hospitals[1]
    baselines = {"single-task": fitted["single"], "pooled": fitted["pooled"]}
    return {"X": X, "y": y, "tasks": tasks, "baselines": baselines}
