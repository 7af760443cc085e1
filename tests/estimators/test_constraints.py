"""Every parameter is declared, and a bad value is refused by name before anything happens."""

import ast
import inspect
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import tacit
from tacit.errors import InvalidInput
from tacit.estimators import _constraints
from tacit.estimators._constraints import anything, constraints_of, rule, validate
from tacit.tuning import PrivateSearch

ESTIMATORS = [getattr(tacit, name) for name in tacit.ESTIMATORS]
ESTIMATORS = [kind for kind in ESTIMATORS if inspect.isclass(kind) and hasattr(kind, "fit")]
# Judged with the sizes of the data, or beside another parameter.
LATER = {("LowRankSparse", "mechanism"), ("FeatureSplitTransfer", "importance")}


def made(kind, **settings):
    if kind is PrivateSearch:
        settings = {"estimator": tacit.LowRankRegressor(), "parameters": {"clip": [1.0]}} | settings
    return kind(**settings)


def parameters():
    for kind in (*ESTIMATORS, PrivateSearch):
        for name in kind._get_param_names():
            method = kind.__name__.removesuffix("Regressor").removesuffix("Classifier")
            if (method, name) not in LATER:
                yield pytest.param(kind, name, id=f"{kind.__name__}-{name}")


@pytest.mark.parametrize(("kind", "name"), list(parameters()))
def test_a_value_of_no_sensible_kind_is_refused_by_name_and_value(kind, name):
    strange = frozenset({"strange"})
    model = made(kind, **{name: strange})
    before = dict(vars(model))
    with pytest.raises(
        InvalidInput, match=rf"^{name}=frozenset\({{'strange'}}\): .*must"
    ) as caught:
        model.fit(np.ones((4, 2)), [0, 1, 0, 1], tasks=[0, 0, 1, 1])
    assert len(str(caught.value)) > len(f"{name}=frozenset({{'strange'}}): must")
    assert vars(model) == before


@pytest.mark.parametrize("kind", [*ESTIMATORS, PrivateSearch], ids=lambda kind: kind.__name__)
def test_what_is_declared_is_what_the_constructor_takes(kind):
    assert set(kind._get_param_names()) <= set(constraints_of(kind))
    assert all(callable(allowed[-1]) for allowed in constraints_of(kind).values())


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_a_plan_refuses_what_a_fit_would(kind):
    model = kind(fit_intercept="yes")
    with pytest.raises(InvalidInput, match=r"^fit_intercept='yes': must be True or False"):
        model.plan(100, 5)


@pytest.mark.parametrize("kind", [*ESTIMATORS, PrivateSearch], ids=lambda kind: kind.__name__)
def test_the_defaults_are_allowed(kind):
    validate(made(kind))


def test_the_nearest_declaration_counts_and_others_are_inherited():
    class Base:
        _parameter_constraints: ClassVar = {"one": [None, anything], "two": ["auto", anything]}

    class Nearer(Base):
        _parameter_constraints: ClassVar = {"two": [anything]}

    assert constraints_of(Nearer) == {"one": [None, anything], "two": [anything]}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": -1.0}, "epsilon=-1.0: must be positive; use epsilon=float"),
        ({"epsilon": True}, "epsilon=True: must be a number"),
        ({"delta": 1.0}, 'delta=1.0: must be below 1; use "auto"'),
        ({"clip": 0.0}, "clip=0.0: must be positive and finite; use clip="),
        ({"n_rounds": 2.0}, "n_rounds=2.0: must be a whole number of at least 1"),
        ({"mechanism": "laplace"}, "mechanism='laplace': must be one of 'auto', 'gaussian'"),
        ({"ledger": 3}, "ledger=3: must be None, a Ledger, or the path of one"),
        ({"random_state": "x"}, "random_state='x': must be None, a whole number"),
        ({"progress": 3}, "progress=3: must be None, True for a bar, or a function"),
        ({"allocation_ratio": 0}, "allocation_ratio=0: must be positive"),
    ],
)
def test_messages_name_parameter_value_and_remedy(settings, message):
    with pytest.raises(InvalidInput, match=message):
        tacit.LowRankRegressor(**settings).plan(10, 3)


def test_no_estimator_checks_by_hand_what_it_could_declare():
    """In ``_check_parameters`` only what ties several parameters together is left."""
    folder = Path(_constraints.__file__).parent
    for path in (*folder.glob("*.py"), *folder.parent.glob("neural/estimators.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef) or not node.name.startswith("_check"):
                continue
            refusals = [
                part
                for part in ast.walk(node)
                if isinstance(part, ast.If) and any(isinstance(p, ast.Raise) for p in part.body)
            ]
            for branch in refusals if len(node.args.args) == 1 else ():
                read = {
                    part.attr
                    for part in ast.walk(branch.test)
                    if isinstance(part, ast.Attribute) and ast.unparse(part.value) == "self"
                }
                assert len(read) != 1, f"{path.name}: {ast.unparse(branch)}"


def test_a_rule_is_a_check_with_its_remedy():
    class Model:
        _parameter_constraints: ClassVar = {
            "n": [None, rule(tacit._check.positive_integer, remedy="use 1")]
        }
        n = 0

        def get_params(self, deep=True):
            return {"n": self.n}

    with pytest.raises(InvalidInput, match="n=0: must be a whole number of at least 1; use 1"):
        validate(Model())
