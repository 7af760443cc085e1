"""The source package: what one organisation hands to another, with what it cost."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np
from scipy.special import expit

from tacit._types import AnyArray, Array
from tacit.errors import InvalidInput, ModelFileError, PrivacyLeak
from tacit.models import read as read_folder
from tacit.models import save as write_folder
from tacit.privacy.statement import Statement
from tacit.transfer.design import Design

__all__ = ["SourcePackage"]

_KIND = "SourcePackage"


@dataclass(frozen=True, eq=False)
class SourcePackage:
    """A source's private models, one per feature group, with their statement.

    Guarantee: holds nothing but a differentially private release (the models), public numbers, and
    the source's statement; whatever a target does with it costs the source nothing more. `digest`
    covers all of it: a package whose statement, models, groups or ``about`` were edited is
    refused by `verify`, which `load` and every ``fit(source=…)`` call. A digest finds changes, it
    does not prove who made the package; compare it over another channel.

    Attributes
    ----------
    design : Design
        Groups, importances and row bound, which the target must share.
    models : tuple of (n_outputs, dimension) arrays
    uncertainties : tuple of float
        Public size of each group's error, from n, d, ε and δ.
    classes : (n_classes,) array
    feature_names : tuple of str or None
    statement : Statement
    about : dict
        Public facts that travel with it, as JSON: how the command line read the source's columns.
    digest : str
    """

    design: Design
    models: tuple[Array, ...]
    uncertainties: tuple[float, ...]
    classes: AnyArray
    feature_names: tuple[str, ...] | None
    statement: Statement
    about: dict[str, Any] = field(default_factory=dict)
    digest: str = field(default="")

    def __post_init__(self) -> None:
        if not self.digest:
            object.__setattr__(self, "digest", self._digest())

    def _manifest(self) -> dict[str, Any]:
        return {
            "groups": [list(group) for group in self.design.groups],
            "shares": list(self.design.shares),
            "row_norm": self.design.row_norm,
            "rows": self.design.rows,
            "intercept": self.design.intercept,
            "uncertainties": list(self.uncertainties),
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            "statement": self.statement.to_json(),
            **({"about": self.about} if self.about else {}),
        }

    def _digest(self) -> str:
        total = hashlib.sha256(json.dumps(self._manifest(), sort_keys=True).encode())
        for array in (self.classes, *self.models):
            total.update(f"{array.dtype.str}{array.shape}".encode())
            total.update(np.ascontiguousarray(array).tobytes())
        return total.hexdigest()

    def verify(self, digest: str | None = None) -> None:
        """Raise `PrivacyLeak` if anything changed since the package was made."""
        if self._digest() != self.digest or digest not in (None, self.digest):
            raise PrivacyLeak(
                "source package: its models, its privacy statement or what it says about its "
                "columns were changed after it was made; ask the source for the package again"
            )

    def save(self, directory: str | PathLike[str]) -> None:
        """Write the package to a folder (arrays and JSON, no code)."""
        self.verify()
        arrays = {f"model_{k}": model for k, model in enumerate(self.models)}
        manifest = {**self._manifest(), "digest": self.digest}
        write_folder(
            str(directory),
            kind=_KIND,
            manifest=manifest,
            arrays={"classes": self.classes, **arrays},
        )

    @classmethod
    def load(cls, directory: str | PathLike[str], *, digest: str | None = None) -> SourcePackage:
        """Read and verify a package; ``digest`` is the one the source told you, if it did."""
        kind, manifest, arrays = read_folder(str(directory))
        if kind != _KIND:
            raise ModelFileError(f"{directory}: holds a {kind!r}, not a source package")
        try:
            design = Design(
                groups=tuple(tuple(int(i) for i in group) for group in manifest["groups"]),
                shares=tuple(manifest["shares"]),
                row_norm=manifest["row_norm"],
                rows=manifest["rows"],
                intercept=manifest["intercept"],
            )
            names = manifest["feature_names"]
            package = cls(
                design=design,
                models=tuple(arrays[f"model_{k}"] for k in range(design.n_groups)),
                uncertainties=tuple(manifest["uncertainties"]),
                classes=arrays["classes"],
                feature_names=None if names is None else tuple(names),
                statement=Statement.from_json(manifest["statement"]),
                about=manifest.get("about", {}),
                digest=manifest["digest"],
            )
        except (KeyError, TypeError, InvalidInput) as error:
            raise ModelFileError(f"{directory}: not a whole source package ({error})") from error
        package.verify(digest)
        return package

    def decision_function(self, X: Any) -> Array:
        """Return the source's own scores on bounded rows: its groups' scores added up (SourceD)."""
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.design.n_features:
            raise InvalidInput(
                f"X: shape {rows.shape} is not (n_rows, {self.design.n_features}), the package's"
            )
        parts = self.design.bounded(rows)
        scores = sum(part @ model.T for part, model in zip(parts, self.models, strict=True))
        scores = np.asarray(scores)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: Any) -> Array:
        """Return the source model's probability of every class."""
        positive = expit(self.decision_function(X))
        if positive.ndim == 1:
            return np.stack([1 - positive, positive], axis=1)
        total = np.maximum(positive.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        return positive / total

    def check_fits(self, design: Design, feature_names: tuple[str, ...] | None) -> None:
        """Raise `InvalidInput` unless a target of this design and these features can use it."""
        self.verify()
        if self.design.n_features != design.n_features:
            raise InvalidInput(
                f"source: the package has {self.design.n_features} features, X has "
                f"{design.n_features}; use the features of the source"
            )
        known = self.feature_names is not None and feature_names is not None
        if known and self.feature_names != feature_names:
            raise InvalidInput(
                f"source: the package's features {self.feature_names} are not X's {feature_names}; "
                "give the same columns in the same order"
            )
        same_shares = len(self.design.shares) == len(design.shares) and all(
            math.isclose(a, b, rel_tol=1e-9)
            for a, b in zip(self.design.shares, design.shares, strict=True)
        )
        if self.design.groups != design.groups or not same_shares:
            raise InvalidInput(
                f"source: the package has {self.design.n_groups} feature groups that differ from "
                f"the target's {design.n_groups}; use the same importance, split and n_groups"
            )
        bounds = ("row_norm", "rows", "intercept")
        for name in bounds:
            if getattr(self.design, name) != getattr(design, name):
                raise InvalidInput(
                    f"source: the package was made with {name}={getattr(self.design, name)!r}, the "
                    f"target has {getattr(design, name)!r}; they must agree"
                )
