"""What the code had in several copies, or guessed, stays gone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tacit
from tacit.privacy import plan
from tacit.privacy.mechanisms import MECHANISMS
from tacit.privacy.published import PUBLISHED

SOURCE = Path(tacit.__file__).parent


def trees(package="."):
    for path in sorted((SOURCE / package).rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def calls(tree, name):
    """Return the calls of a function or method of that name."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and name in (getattr(node.func, "id", None), getattr(node.func, "attr", None))
    ]


def names_in(tree):
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)
    }


@pytest.mark.parametrize("package", ["protocols", "report", "engines", "estimators"])
def test_nobody_asks_of_which_type_a_mechanism_is(package):
    kinds = {kind.__name__ for kind in (*MECHANISMS.values(), *PUBLISHED.values())} | {"Exact"}
    for path, tree in trees(package):
        for call in calls(tree, "isinstance"):
            asked = names_in(call.args[1])
            assert not asked & (kinds | {"Mechanism"}), f"{path}:{call.lineno} asks for {asked}"


def test_the_plan_knows_no_method_and_no_constant_of_a_protocol():
    tree = ast.parse(Path(plan.__file__).read_text(encoding="utf-8"))
    tables = [
        node
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict)
    ]
    assert not tables
    told = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert not told & {0.35, 33, 0.4, "low-rank", "shared-prior", "mean-regularized", "averaged"}


def test_one_file_alone_writes_beside_a_file_and_renames():
    renaming = {
        path
        for path, tree in trees()
        for call in calls(tree, "replace") + calls(tree, "rename")
        if isinstance(call.func, ast.Attribute)
        and getattr(call.func.value, "id", None) in ("os", "aside", "beside", "staged", "stage")
    }
    assert renaming <= {"_files.py", "cli/run/folder.py"}  # the folder renames a whole directory


def test_every_module_of_the_noise_is_on_a_path_that_users_run():
    noise = {path.stem for path in (SOURCE / "privacy" / "noise").glob("*.py")} - {"__init__"}
    imported = {
        node.module.rsplit(".", 1)[-1]
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("tacit.privacy.noise.")
    }
    assert noise <= imported


def test_penalties_are_listed_where_they_are_written():
    from tacit.penalties import OWN_PENALTIES, SHARED_PENALTIES

    assert set(OWN_PENALTIES) | set(SHARED_PENALTIES) >= {"low-rank", "group-sparse", "entries"}
    kinds = {kind.__name__ for kind in (*OWN_PENALTIES.values(), *SHARED_PENALTIES.values())}
    for path, tree in trees():
        if path != "penalties.py":
            for node in ast.walk(tree):
                if isinstance(node, ast.Dict):
                    assert not kinds & {getattr(value, "id", None) for value in node.values}, path
