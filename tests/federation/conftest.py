"""Four small sites, and terms for each kind of conversation."""

import functools

import numpy as np
import pytest

from tacit.federation import Policy, Site, Terms
from tacit.federation.house import FILE, Federation, House
from tacit.federation.keys import make_identities

NAMES = ("ash", "birch", "cedar", "dogwood")
FEATURES = ("a", "b", "c")
CLASSES = ("no", "yes")

METHODS = {
    "shared prior": ("shared-prior", "regression", {"epsilon": 50.0, "clip": 3.0}),
    "low rank": ("low-rank", "regression", {"epsilon": 50.0}),
    "low rank and rows": (
        "low-rank",
        "regression",
        {"epsilon": 50.0, "epsilon_rows": 40.0, "target_bound": 3.0, "row_norm": 3.0},
    ),
    "mean regularised": ("mean-regularized", "regression", {"epsilon": 50.0, "n_rounds": 3}),
    "group sparse": ("group-sparse", "regression", {"epsilon": 50.0}),
    "relationships": ("task-relationship", "regression", {"epsilon": 2000.0}),
    "averaged": ("averaged", "classification", {"epsilon": 50.0}),
    "moments, untrusted": ("shared-moments", "classification", {"epsilon": 5.0}),
    "moments, trusted": (
        "shared-moments",
        "regression",
        {"epsilon": 5.0, "aggregation": "trusted"},
    ),
    "moments, secure": (
        "shared-moments",
        "classification",
        {"epsilon": 5.0, "aggregation": "secure"},
    ),
}


ASYNCHRONOUS = (
    "asynchronous",
    "regression",
    {"epsilon": 500.0, "n_rounds": 5, "target_bound": 4.0, "row_norm": 3.0, "gate": False},
)


TRANSFER = ("transfer", "classification", {"epsilon": 2.0})
OTHERS = {"asynchronous": ASYNCHRONOUS, "transfer": TRANSFER}


def terms_of(name, *, seed=None, **options):
    method, kind, settings = (METHODS | OTHERS)[name]
    if name == "transfer":
        options.setdefault("sources", ("ash", "cedar"))
    settings = {**settings, "delta": 1e-5}
    if seed is not None:
        settings["random_state"] = seed
    classes = CLASSES if kind == "classification" else None
    return Terms(method, kind, FEATURES, NAMES, settings, classes=classes, **options)


def rows_of(kind, n_rows=60):
    rng = np.random.default_rng(4)
    common, found = rng.normal(size=len(FEATURES)), {}
    for name in NAMES:
        X = rng.normal(size=(n_rows, len(FEATURES)))
        y = X @ (common + 0.1 * rng.normal(size=len(FEATURES))) + 0.3 * rng.normal(size=n_rows)
        found[name] = (X, y if kind == "regression" else np.where(y > 0, "yes", "no"))
    return found


@functools.cache
def _identities(names):
    pytest.importorskip("cryptography", reason="keys of secure sums need tacit[federation]")
    return make_identities(names)


def identities_of(terms):
    """Return long-lived keys where sums are secure; the same ones for the same sites."""
    secure = terms.settings.get("aggregation") == "secure"
    return _identities(terms.sites) if secure else dict.fromkeys(terms.sites)


def sites_of(terms, folder, *, policy=None, rows=None, identities=None):
    rows = rows_of(terms.kind) if rows is None else rows
    policy = policy or Policy(terms.settings["epsilon"], 0.1, allow_seeded=True)
    identities = identities or identities_of(terms)
    return {
        name: Site(
            name, folder / name, lambda _, n=name: rows[n], policy, identity=identities[name]
        )
        for name in terms.sites
    }


@pytest.fixture
def house(tmp_path):
    """A coordinator's folder without keys."""
    terms = terms_of("mean regularised")
    Federation("f", "localhost", 1, "SHA256:00", terms).save(tmp_path / FILE)
    return House(tmp_path)


def closed(sites):
    for site in sites.values():
        site.close()
