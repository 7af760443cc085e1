"""The page as a document: valid, self-contained, escaped, complete without a script."""

from __future__ import annotations

import base64
import hashlib
import re

import numpy as np
import pytest

import tacit
from tacit.audit import AuditResult
from tacit.errors import InvalidInput, PrivacyWarning
from tacit.privacy.ledger import Ledger
from tacit.report import write_report


def _checked(page):
    """Check what must hold for every page."""
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in page.elements:
        for name in ("aria-labelledby", "for"):
            assert all(target in ids for target in attrs.get(name, "").split())
        if attrs.get("href", "").startswith("#"):
            assert attrs["href"][1:] in ids
        assert "style" not in attrs
        assert not any(name.startswith("on") for name in attrs)
    assert not re.search(r"\b(nan|NaN|inf|None)\b", page.said)
    assert not re.search(r'="-?(nan|inf)', page.text, flags=re.I)
    assert not re.search(r"https?://|//[a-z]|url\(|@import", page.text.replace("// ", ""))
    assert len(page.all("h1")) == 1
    assert len(page.all("main")) == len(page.all("nav")) == len(page.all("footer")) == 1
    assert len(page.all("caption")) == len(page.all("table"))
    pictures = [a for a in page.all("svg") if a.get("role") == "img"]
    hidden = [a for a in page.all("svg") if a.get("aria-hidden") == "true"]
    assert all(len(a["aria-labelledby"].split()) == 2 for a in pictures)
    inner = [a for a in page.all("svg") if a.get("class") == "plot"]
    assert len(pictures) + len(hidden) + len(inner) == len(page.all("svg"))
    return page


@pytest.mark.parametrize(
    "name", ["prior", "relations", "sparse", "low_rank", "mean", "single", "pooled"]
)
def test_every_methods_page_is_valid_and_self_contained(read, fitted, evaluation, name):
    _checked(read(fitted[name]))
    _checked(read(fitted[name], **evaluation))
    _checked(read(fitted[name], party="Alder Vale", **evaluation))


def test_only_the_pages_own_style_and_script_may_run(read, fitted):
    page = read(fitted["prior"])
    policy = next(
        a["content"] for a in page.all("meta") if a.get("http-equiv", "").startswith("Content-S")
    )
    assert policy.startswith("default-src 'none'")
    for kind in ("style", "script"):
        text = re.search(rf"<{kind}>(.*?)</{kind}>", page.text, flags=re.S).group(1)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_names_cannot_become_markup(tmp_path, read, hospitals):
    (X, y, tasks), (X2, y2, tasks2) = hospitals
    evil = "</title><script>alert(1)</script>\"' onload=x <b>&amp;\x00\ud800"
    rename = lambda labels: np.where(labels == "Dunmere", evil, labels)  # noqa: E731
    X, X2 = (frame.rename(columns={"age": "<img src=x onerror=alert(2)>"}) for frame in (X, X2))
    model = tacit.TaskRelationshipRegressor(epsilon=80.0, clip=1.0).fit(X, y, tasks=rename(tasks))
    for party in (None, evil):
        page = _checked(
            read(
                model,
                X=X2,
                y=y2,
                tasks=rename(tasks2),
                baselines={"<i>me</i>": model},
                party=party,
                title="<u>mine</u>",
            )
        )
        assert len(page.all("script")) == 1
        assert not page.all("img") + page.all("b") + page.all("i") + page.all("u")
        assert "<u>mine</u>" in page.said


def test_the_statement_is_there_in_words_and_by_field(read, fitted):
    page = read(fitted["prior"])
    first = fitted["prior"].privacy_.explain().split(" Assumed:")[0]
    assert first in page.said
    for text in (*fitted["prior"].privacy_.assumptions, *fitted["prior"].privacy_.not_protected):
        assert text in page.said
    assert {"Protected unit", "Neighbours", "Accountant"} <= set(page.words)


def test_the_budget_adds_up_release_by_release(read, fitted):
    from tacit.report.visible import collect

    model = fitted["prior"]
    costs = [step.epsilon for step in collect(model).steps]
    assert len(costs) == model.privacy_.n_releases > 20
    assert 0 < costs[0] < costs[1]
    assert costs[-1] == pytest.approx(model.privacy_.epsilon, rel=1e-12)
    assert "ε so far" in read(model).said


def test_a_ledger_shows_what_is_left(read, hospitals):
    X, y, tasks = hospitals[0]
    with Ledger(":memory:", epsilon=3.0, delta=1e-4) as ledger:
        model = tacit.MeanRegularizedRegressor(epsilon=1.0, clip=2.0, ledger=ledger).fit(
            X, y, tasks=tasks
        )
        page = read(model, ledger=ledger)
        left = ledger.left().epsilon
    assert "What is left" in page.said
    assert f"{left:.3g}" in page.said


def test_seeded_leaking_and_open_runs_wear_a_red_banner(read, hospitals, fitted):
    X, y, tasks = hospitals[0]
    seeded = tacit.MeanRegularizedRegressor(clip=2.0, random_state=1).fit(X, y, tasks=tasks)
    page = read(seeded)
    assert "fixed seed" in page.red_banners
    assert "not protected" in page.said
    with pytest.warns(PrivacyWarning):
        leaking = tacit.LowRankRegressor(
            mechanism="wishart-published", update="proximal", clip=1.0, n_rounds=3
        ).fit(X, y, tasks=tasks)
    assert "This leaks." in read(leaking).red_banners
    assert "added no noise" in read(fitted["pooled"]).red_banners
    assert "This run protects nobody." in read(fitted["pooled"]).said
    assert read(fitted["prior"]).red_banners == ""


def test_weak_protection_is_not_called_protection(read, fitted):
    assert "weakly protected" in read(fitted["relations"]).said
    assert "weak" not in " ".join(read(fitted["sparse"]).words[:60])


def test_a_delta_that_means_nothing_is_warned_of(read, hospitals):
    X, y, tasks = hospitals[0]
    model = tacit.MeanRegularizedRegressor(clip=2.0, delta=0.2).fit(X, y, tasks=tasks)
    assert "δ = 0.2 is not below 1/20" in read(model).said


def test_audits_show_claims_and_what_was_measured(read, fitted):
    result = AuditResult(
        target="gaussian",
        epsilon_lower=1.4,
        claimed_epsilon=1.0,
        delta=1e-5,
        delta_lower=0.0,
        confidence=0.999,
        n_trials=5000,
        violated=True,
        event="a",
        pair="b",
        epsilon_direct=1.4,
    )
    page = _checked(read(fitted["prior"], audit=result))
    assert "The audit broke the claim." in page.red_banners
    page = _checked(read(fitted["prior"], audit=[(0.5, 0.31), (1.0, 0.72)]))
    assert "No attack found more" in page.said
    assert "0.72" in page.said
    with pytest.raises(InvalidInput, match="pair"):
        read(fitted["prior"], audit=["x"])


def test_more_than_two_classes_and_one_task(read, hospitals):
    (X, y, _), (X2, y2, _) = hospitals
    grade = lambda values: np.digitize(values, [7.0, 11.0]).astype(str)  # noqa: E731
    model = tacit.MeanRegularizedClassifier(clip=2.0).fit(X, grade(y))
    page = _checked(read(model, X=X2, y=grade(y2), party=0))
    assert "class 2" in page.said
    assert "wrong answers" in page.said
    _checked(read(model, X=X2, y=grade(y2)))
    row = tacit.PrivateLogisticRegression(epsilon=1.0).fit(X, grade(y) == "0")
    assert "The model itself was released" in _checked(read(row)).said


def test_ten_thousand_tasks_fit_in_a_small_page(read):
    random = np.random.default_rng(0)
    tasks = np.repeat(np.arange(10_000), 4)
    X = random.normal(size=(len(tasks), 3))
    y = X @ [1.0, -1.0, 0.5] + random.normal(size=len(tasks))
    model = tacit.MeanRegularizedRegressor(epsilon=1.0).fit(X, y, tasks=tasks)
    single = tacit.SingleTaskRegressor().fit(X, y, tasks=tasks)
    page = _checked(read(model, X=X, y=y, tasks=tasks, baselines={"single-task": single}))
    assert len(page.text) < 200_000
    assert "How 10 000 tasks fare" in page.said
    assert len(page.all("tr")) < 80


def test_wrong_arguments_are_refused_and_leave_no_file(tmp_path, fitted, evaluation):
    path = tmp_path / "report.html"
    with pytest.raises(InvalidInput, match="give both"):
        write_report(fitted["prior"], path, X=evaluation["X"])
    with pytest.raises(InvalidInput, match="baselines"):
        write_report(fitted["prior"], path, baselines=[1])
    with pytest.raises(InvalidInput, match="tasks=None"):
        write_report(fitted["prior"], path, X=evaluation["X"], y=evaluation["y"])
    with pytest.raises(InvalidInput, match="is a folder"):
        write_report(fitted["prior"], tmp_path)
    assert not list(tmp_path.iterdir())


def test_estimators_write_their_own_report(tmp_path, fitted):
    fitted["prior"].report(tmp_path / "mine.html", title="My run")
    assert "<h1>My run</h1>" in (tmp_path / "mine.html").read_text(encoding="utf-8")
