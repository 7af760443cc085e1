from __future__ import annotations

import pytest

from tacit.privacy import Adjacency, Norm, Unit


def test_types_are_the_strings_that_documents_use():
    assert [str(unit) for unit in Unit] == ["task", "row"]
    assert [str(kind) for kind in Adjacency] == ["replace-one", "add-or-remove", "zero-out"]
    assert [str(norm) for norm in Norm] == ["l1", "l2", "frobenius", "trace"]


def test_an_unknown_adjacency_is_refused():
    with pytest.raises(ValueError, match="replace-two"):
        Adjacency("replace-two")
