"""Which classes there are: declared by the user, who says that they are public, or read off y.

A class that occurs in one task only, or in one row, is visible in the shape of every model. So
classes that are read off the data are not protected, and the statement says so. Declared classes
are fixed before anybody's labels are looked at: a label that is none of them (a *stranger*) counts
as the class declared last, so no row can change the shape of a model or stop the run.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from tacit._types import AnyArray, Array, IntArray
from tacit.errors import InvalidInput

__all__ = [
    "DECLARED",
    "READ_OFF",
    "check_declared",
    "declared_codes",
    "indicators",
    "known_codes",
    "read_off",
    "read_off_parts",
    "with_parameter",
]

DECLARED = "the classes are public: they were declared, whatever occurs in the data"
READ_OFF = (
    "the set of classes, which was read off the data: a class that one task alone has shows in "
    "everybody’s model; declare the classes to keep it from showing"
)


def with_parameter(init: Callable[..., None], name: str, default: Any) -> Callable[..., None]:
    """Return a constructor with a further parameter, which becomes an attribute."""
    signature = inspect.signature(init)
    added = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)

    @functools.wraps(init)
    def taking(self: Any, *args: Any, **kw: Any) -> None:
        value = kw.pop(name, default)
        init(self, *args, **kw)
        setattr(self, name, value)

    parameters = [*signature.parameters.values(), added]
    taking.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return taking


def check_declared(classes: Any) -> AnyArray | None:
    """Return declared classes as an array in the order declared; None if nobody declared any."""
    if classes is None:
        return None
    remedy = 'list them in order, such as classes=("no", "yes", "other"), the catch-all last'
    if isinstance(classes, str | bytes | set | frozenset) or not isinstance(classes, Iterable):
        raise InvalidInput(f"classes={classes!r}: must be a sequence of labels; {remedy}")
    listed = [part.item() if isinstance(part, np.generic) else part for part in classes]
    if not all(isinstance(part, str | Real) and part == part for part in listed):
        raise InvalidInput(f"classes={classes!r}: labels must be text or numbers; {remedy}")
    if len({isinstance(part, str) for part in listed}) > 1:
        raise InvalidInput(f"classes={classes!r}: mixes text and numbers; use one kind of label")
    if len(set(listed)) < len(listed) or len(listed) < 2:
        raise InvalidInput(f"classes={classes!r}: needs two different labels or more; {remedy}")
    return np.array(listed)


def declared_codes(y: AnyArray, declared: AnyArray) -> tuple[AnyArray, IntArray, int]:
    """Return sorted classes, the class of every row, and how many rows were strangers.

    Labels are matched by value (1, 1.0 and True are one), then by text, because an array that
    holds one word among numbers holds text only. Never raises, whatever ``y`` holds.
    """
    classes = np.sort(declared)
    position = {label: code for code, label in enumerate(classes.tolist())}
    by_text = {str(label): code for label, code in position.items()}

    def code_of(label: Any) -> int:
        try:
            code = position.get(label)
        except TypeError:  # not hashable
            code = None
        return by_text.get(str(label), -1) if code is None else code

    # Objects are looked up one by one: 1 and True are equal, but not the same text.
    one_kind = y.dtype != object
    labels, place = np.unique(y, return_inverse=True) if one_kind else (y, np.arange(len(y)))
    codes = np.fromiter(map(code_of, labels.tolist()), np.int64, len(labels))[place]
    strange = codes < 0
    codes[strange] = position[declared[-1].item()]
    return classes, codes, int(strange.sum())


def read_off(y: AnyArray) -> tuple[AnyArray, IntArray]:
    """Return the classes that occur, and the class of every row."""
    kinds = sorted({type(label).__name__ for label in y.tolist()}) if y.dtype == object else []
    if len(kinds) > 1:
        raise InvalidInput(
            f"y: holds labels of several types ({', '.join(kinds)}), which have no order; make "
            "them one type, such as with y.astype(str), or declare them with classes="
        )
    check_classification_targets(y)
    classes = np.unique(y)
    if len(classes) < 2:
        raise InvalidInput(
            f"y: has the one class {classes[0]!r}; a classifier needs two classes or more: declare "
            "them with classes="
        )
    return classes, np.searchsorted(classes, y)


def known_codes(y: AnyArray, classes: AnyArray) -> IntArray:
    """Return the class of every row; a label that is none of ``classes`` is an error."""
    position = {label: code for code, label in enumerate(classes.tolist())}
    strange = [label for label in y.tolist() if label not in position]
    if strange:
        raise InvalidInput(
            f"y: the label {strange[0]!r} is none of the model's classes "
            f"{', '.join(map(repr, position))}; leave such rows out"
        )
    return np.fromiter((position[label] for label in y.tolist()), np.int64, len(y))


def read_off_parts(parts: Iterable[AnyArray]) -> AnyArray:
    """Return the classes that occur in a column that comes in parts."""
    found: AnyArray | None = None
    for part in parts:
        if part.dtype == object and any(value is None for value in part.tolist()):
            raise InvalidInput(
                "y: has missing labels; drop these rows, or declare the classes with classes="
            )
        seen = np.unique(part)
        found = seen if found is None else np.unique(np.concatenate([found, seen]))
    return read_off(np.empty(0) if found is None else found)[0]


def indicators(codes: IntArray, n_classes: int) -> Array:
    """Return (N, 1) codes of two classes, or (N, k) indicators of more."""
    if n_classes == 2:
        return codes.astype(np.float64)[:, None]
    return (codes[:, None] == np.arange(n_classes)).astype(np.float64)
