"""Learning from a file larger than memory: the models of an in-memory fit, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import tacit
from tacit.engines import Local
from tacit.errors import InvalidInput
from tacit.tasks import ParquetTasks

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

PRIVATE = {
    "MeanRegularized": {},
    "Averaged": {"clip": 2.0},
    "SharedPrior": {"unknown_task": "shared"},
    "LowRank": {},
    "GroupSparse": {},
    "LowRankSparse": {},
    "TaskRelationship": {},
}


WHOLE = ("Pooled", "FeatureSplit", "Transfer", "PrivateLogistic")  # cannot be read in batches


def frame_of(*, n_tasks=25, d=5, classes=None, seed=0):
    rng = np.random.default_rng(seed)
    counts = rng.integers(4, 14, n_tasks)
    task = np.repeat(np.arange(n_tasks), counts)
    X = rng.standard_normal((len(task), d))
    W = rng.standard_normal((n_tasks, 2)) @ rng.standard_normal((2, d)) + 1.0
    score = np.einsum("nd,nd->n", X, W[task]) + 0.1 * rng.standard_normal(len(task))
    frame = pandas.DataFrame(X, columns=[f"x{j}" for j in range(d)])
    frame.insert(0, "who", [f"party {t:03d}" for t in task])
    if classes is not None:
        edges = np.quantile(score, np.linspace(0, 1, len(classes) + 1)[1:-1])
        score = np.asarray(classes, dtype=object)[np.digitize(score, edges)]
    return frame.assign(y=score)


def both(model, frame, path, **options):
    """Return the model fitted in memory, and the same fitted from a file in small batches."""
    frame.to_parquet(path, row_group_size=37, index=False)
    again = type(model)(**model.get_params())
    model.fit(frame.drop(columns=["y"]), frame["y"], tasks="who")
    if hasattr(again, "engine"):
        again.set_params(engine=Local(max_rows=40))
    return model, again.fit_parquet(path, tasks="who", target="y", **options)


def assert_same(one, other):
    assert np.array_equal(one.coef_, other.coef_)
    assert np.array_equal(one.intercept_, other.intercept_)
    assert one.task_names_ == tuple(other.task_names_)
    assert list(one.feature_names_in_) == list(other.feature_names_in_)
    if one.billboard_ is not None:
        assert one.billboard_.head == other.billboard_.head
    assert one.privacy_ == other.privacy_


@pytest.mark.parametrize("name", ["SingleTask", *PRIVATE])
def test_a_regressor_reads_the_same_models_off_a_file_as_off_memory(name, tmp_path):
    options = {"epsilon": 300.0, "random_state": 0} if name in PRIVATE else {}
    model = getattr(tacit, f"{name}Regressor")(**options, **PRIVATE.get(name, {}))
    assert_same(*both(model, frame_of(d=20), tmp_path / "rows.parquet"))


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("name", ["SingleTask", "SharedPrior", "LowRank", "TaskRelationship"])
def test_a_classifier_of_three_classes_does_so_too(name, declared, tmp_path):
    options = {"epsilon": 300.0, "random_state": 0} if name in PRIVATE else {}
    classes = ("no", "perhaps", "yes") if declared else None
    model = getattr(tacit, f"{name}Classifier")(**options, classes=classes)
    frame = frame_of(classes=("no", "perhaps", "yes"))
    one, other = both(model, frame, tmp_path / "rows.parquet")
    assert_same(one, other)
    assert list(one.classes_) == list(other.classes_) == ["no", "perhaps", "yes"]
    rows = frame.drop(columns=["y"])
    assert list(one.predict(rows, tasks="who")) == list(other.predict(rows, tasks="who"))


def test_rounds_whose_homes_remember_their_iterates_are_the_same_too(tmp_path):
    model = tacit.LowRankRegressor(300.0, update="proximal", n_rounds=3, random_state=0)
    assert_same(*both(model, frame_of(), tmp_path / "rows.parquet"))
    rows = {"epsilon_rows": 50.0, "row_norm": 3.0, "target_bound": 9.0}
    model = tacit.LowRankRegressor(300.0, random_state=0, **rows)
    assert_same(*both(model, frame_of(), tmp_path / "rows.parquet"))


@pytest.mark.parametrize("update", ["fit", "proximal"])
def test_own_models_are_fitted_once_however_often_a_file_is_read(update, tmp_path, monkeypatch):
    from tacit.protocols import _home, model_protected, proximal_protected

    fitted = []
    for module in (_home, model_protected, proximal_protected):
        own = module.local_fit

        def counted(rows, *given, priors=(), own=own, **named):
            if len(priors) <= 1 and "beside" not in named:  # alone, not under what was released
                fitted.extend(rows.names)
            return own(rows, *given, **({"priors": priors} if priors else {}), **named)

        monkeypatch.setattr(module, "local_fit", counted)
    for module in (_home, model_protected):
        every = module.local_fits

        def counted_once(outputs, *given, every=every, **named):
            fitted.extend(outputs[0].names)
            return every(outputs, *given, **named)

        monkeypatch.setattr(module, "local_fits", counted_once)
    frame = frame_of()
    frame.to_parquet(tmp_path / "rows.parquet", index=False)
    model = tacit.LowRankRegressor(
        300.0, update=update, n_rounds=3, random_state=0, engine=Local(max_rows=40)
    )
    model.fit_parquet(tmp_path / "rows.parquet", tasks="who", target="y")
    assert sorted(fitted) == sorted(set(frame["who"]))


def test_score_rounds_are_answered_without_reading_the_file_again(tmp_path, monkeypatch):
    passes, batches = [], ParquetTasks.batches

    def counted(self, max_rows):
        passes.append(max_rows)
        return batches(self, max_rows)

    monkeypatch.setattr(ParquetTasks, "batches", counted)
    frame_of(d=6).to_parquet(tmp_path / "rows.parquet", index=False)
    model = tacit.SharedPriorRegressor(300.0, random_state=0, engine=Local(max_rows=40))
    model.fit_parquet(tmp_path / "rows.parquet", tasks="who", target="y")
    others = [row for row in model.history_ if row["name"] != "scores"]
    assert len(model.history_) - len(others) > 10
    assert len(passes) == len(others) + 1  # and one for the models


@pytest.mark.parametrize("name", tacit.ESTIMATORS)
def test_every_estimator_learns_from_a_file_or_says_why_not(name, tmp_path):
    kind = getattr(tacit, name)
    seeded = {"random_state": 0} if "random_state" in kind().get_params() else {}
    frame = frame_of(classes=None if name.endswith("Regressor") else (0, 1))
    frame["y"] = frame["y"].astype(float if name.endswith("Regressor") else int)
    if name.startswith(WHOLE):
        frame.to_parquet(tmp_path / "rows.parquet", index=False)
        with pytest.raises(InvalidInput, match=r"learns from all rows at once.*use fit"):
            kind(**seeded).fit_parquet(tmp_path / "rows.parquet", tasks="who", target="y")
    else:
        assert_same(*both(kind(**seeded), frame, tmp_path / "rows.parquet"))


def test_strangers_are_counted_once(tmp_path):
    frame = frame_of(classes=(0, 1, 2))
    frame["y"] = frame["y"].astype(int)
    model = tacit.SharedPriorClassifier(random_state=0, classes=(0, 1))
    one, other = both(model, frame, tmp_path / "rows.parquet")
    assert_same(one, other)
    assert one.n_strangers_ == other.n_strangers_ == int((frame["y"] == 2).sum()) > 0


def test_the_models_file_is_where_it_was_asked_for_and_saving_copies_it(tmp_path):
    frame = frame_of()
    model, streamed = both(
        tacit.SharedPriorRegressor(random_state=0),
        frame,
        tmp_path / "rows.parquet",
        models=tmp_path / "models.npy",
    )
    stored = np.load(tmp_path / "models.npy", mmap_mode="r")
    assert np.array_equal(stored[:, 0, :-1], model.coef_)
    streamed.coef_[0] = 7.0  # a change of the model is no change of the file
    assert not (np.load(tmp_path / "models.npy") == 7.0).any()
    streamed.coef_[0] = model.coef_[0]
    streamed.save(tmp_path / "model")
    (tmp_path / "models.npy").unlink()
    loaded = tacit.load(tmp_path / "model")
    rows = frame.drop(columns=["y"])
    assert np.array_equal(loaded.predict(rows, tasks="who"), model.predict(rows, tasks="who"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "rows.parquet"]


def test_tasks_in_any_order_get_the_models_that_their_names_have_in_memory(tmp_path):
    frame = frame_of()
    names = np.random.default_rng(1).permutation(frame["who"].unique())
    shuffled = pandas.concat([frame[frame["who"] == name] for name in names])
    one, other = both(
        tacit.SharedPriorRegressor(300.0, random_state=0), shuffled, tmp_path / "rows.parquet"
    )
    place = [one.task_names_.index(name) for name in other.task_names_]
    assert list(other.task_names_) == list(names)
    assert np.array_equal(one.coef_[place], other.coef_)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (tacit.PooledRegressor(), "PooledRegressor: learns from all rows at once"),
        (tacit.LowRankRegressor(float("inf")), "epsilon=inf"),
        (tacit.SharedPriorRegressor(engine="moon"), "engine='moon'"),
        (tacit.SharedPriorRegressor(engine=3), "engine=3"),
        (tacit.SharedPriorRegressor(engine=Local), "engine="),
        (tacit.SharedPriorClassifier(), "continuous"),
    ],
)
def test_what_cannot_be_learned_from_a_file_is_refused_and_changes_nothing(model, text, tmp_path):
    frame_of().to_parquet(tmp_path / "rows.parquet", index=False)
    before = dict(vars(model))
    with pytest.raises((InvalidInput, ValueError), match=text):
        model.fit_parquet(tmp_path / "rows.parquet", tasks="who", target="y")
    assert vars(model) == before
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]


def test_rows_of_a_task_that_do_not_stand_together_are_refused_with_the_remedy(tmp_path):
    frame_of().sample(frac=1.0, random_state=0).to_parquet(tmp_path / "rows.parquet", index=False)
    with pytest.raises(InvalidInput, match="sort_parquet"):
        tacit.SharedPriorRegressor().fit_parquet(tmp_path / "rows.parquet", tasks="who", target="y")
