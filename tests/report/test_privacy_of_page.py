"""What a page gives away: it must not change when somebody else's private numbers do."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tacit.errors import InvalidInput

METHODS = ("prior", "relations", "sparse", "low_rank", "mean", "single")


def _garbled(array, keep=()):
    noise = np.random.default_rng(0).normal(size=array.shape)
    noise[list(keep)] = array[list(keep)]
    return noise


def _spellings(value: float) -> set[str]:
    """Return the ways in which the page would write a number."""
    found = {f"{value:.{digits}f}" for digits in (2, 3, 4)} | {f"{value:.3g}", f"{value:.12g}"}
    return {text.replace("-", "−") for text in found} | found


def _numbers(text: str) -> set[str]:
    body = re.sub(r"<(style|script)>.*?</\1>", "", text, flags=re.S)
    return set(re.findall(r"[−-]?\d+(?:\.\d+)?", body))


@pytest.mark.parametrize("name", METHODS)
def test_a_coordinators_page_does_not_depend_on_any_personal_model(read, fitted, name):
    model = fitted[name]
    before = read(model).text
    model.coef_, model.intercept_ = _garbled(model.coef_), _garbled(model.intercept_)
    if hasattr(model, "task_embedding_"):
        model.task_embedding_ = _garbled(model.task_embedding_)
    assert read(model).text == before


@pytest.mark.parametrize("name", METHODS)
def test_a_partys_page_depends_on_its_own_model_and_on_no_other(read, fitted, evaluation, name):
    model, party = fitted[name], "Calder Royal"
    own = model.task_names_.index(party)
    evaluation["baselines"].pop("pooled")
    before = read(model, party=party, **evaluation).text

    others = np.asarray(evaluation["tasks"]) != party
    y = np.array(evaluation["y"])
    y[others] = 1e3 * np.random.default_rng(1).normal(size=others.sum())
    X = evaluation["X"].copy()
    X.loc[others] = 7.0
    for each in (model, evaluation["baselines"]["single-task"]):
        each.coef_, each.intercept_ = _garbled(each.coef_, [own]), _garbled(each.intercept_, [own])
    assert read(model, party=party, **{**evaluation, "X": X, "y": y}).text == before

    model.coef_[own] += 1.0
    assert read(model, party=party, **evaluation).text != before


def test_other_parties_numbers_are_nowhere_on_a_partys_page(read, fitted, evaluation):
    model, party = fitted["prior"], "Calder Royal"
    page = read(model, party=party, **evaluation)
    alone = _numbers(read(model).text)
    own = model.task_names_.index(party)
    # Three digits agree with a released number by chance; to six digits (cells keep twelve, to be
    # sorted by) none of the others' may be there.
    found = _numbers(page.text) - alone
    for task, row in enumerate(model.coef_):
        digits = {f"{value:.6g}" for value in row} | {f"{model.intercept_[task]:.6g}"}
        if task != own:
            assert not any(text.startswith(digit) for text in found for digit in digits)
    listed = _numbers("".join(page.words))
    assert all(_spellings(value) & listed for value in model.coef_[own])


def test_a_partys_page_leaves_out_baselines_that_looked_at_others_rows(read, fitted, evaluation):
    page = read(fitted["prior"], party="Calder Royal", **evaluation)
    assert "Left out: pooled" in page.said
    assert "single-task" in page.said
    assert "Do not share this page" not in page.said


def test_a_page_with_everybodys_results_says_not_to_share_it(read, fitted, evaluation):
    page = read(fitted["prior"], **evaluation)
    assert "Do not share this page." in page.said
    assert "every task’s private results" in page.said
    assert "Do not share" not in read(fitted["prior"]).said


def test_a_partys_page_may_come_from_its_own_model_folder(read, fitted, tmp_path):
    import tacit

    fitted["prior"].save(tmp_path / "mine", task="Dunmere")
    mine = tacit.load(tmp_path / "mine")
    page = read(mine, party="Dunmere", billboard=fitted["prior"].billboard_)
    assert "Northgate" not in page.text
    assert "Eigenvalues of the released second moment" in page.said
    assert "Eigenvalues of the released second moment" in read(mine, party="Dunmere").said
    (tmp_path / "mine" / "billboard.npz").unlink()
    bare = tacit.load(tmp_path / "mine")
    assert "The releases themselves are not kept" in read(bare, party="Dunmere").said


def test_similarity_comes_from_releases_and_is_refused_where_there_are_none(read, fitted):
    assert "released nothing about any single task" in read(fitted["prior"]).said
    assert "Tasks by similarity" in read(fitted["relations"]).said


def test_the_history_shows_its_public_fields_only(read, fitted):
    model = fitted["prior"]
    model.billboard_ = None
    model.history_ = tuple({**row, "worst_task": "secret 123.456"} for row in model.history_)
    page = read(model)
    assert "123.456" not in page.text
    assert "worst_task" not in page.text


def test_folders_of_the_ledger_stay_off_the_page(read, fitted, tmp_path):
    from tacit.privacy.ledger import Ledger

    path = tmp_path / "budget.db"
    Ledger(path, epsilon=3.0, delta=1e-5).close()
    page = read(fitted["prior"], ledger=path)
    assert "budget.db" in page.said
    assert str(tmp_path) not in page.text


def test_an_unknown_party_is_refused(read, fitted):
    with pytest.raises(InvalidInput, match="not one of the model's 20 tasks"):
        read(fitted["prior"], party="Nowhere")
