"""What a run would cost before anything is spent: noise, signal, bytes, memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tacit import _check
from tacit.errors import InvalidInput
from tacit.privacy.accounting.allocation import scale_gaussian, scale_pure
from tacit.privacy.accounting.gaussian import check_delta, check_epsilon
from tacit.privacy.unit import Adjacency, Unit

__all__ = ["METHODS", "Plan", "PlannedRelease", "plan"]


@dataclass(frozen=True)
class PlannedRelease:
    """The noise on one release of a round.

    ``noise_to_signal`` is the expected norm of the noise over the largest norm the noiseless
    release can have: all messages of full length and in agreement. Real messages agree less, so
    it is a floor.
    """

    name: str
    mechanism: str
    n_numbers: int
    sensitivity: float
    noise_multiplier: float
    standard_deviation: float
    noise_to_signal: float


@dataclass(frozen=True)
class Plan:
    """What a run costs; all of it computed from public numbers, nothing from data."""

    method: str
    n_tasks: int
    n_features: int
    n_rows: int | None
    epsilon: float
    delta: float
    n_rounds: int
    unit: Unit
    adjacency: Adjacency
    releases: tuple[PlannedRelease, ...]
    bytes_up: int
    bytes_down: int
    bytes_total: int
    curator_memory: int

    def table(self) -> str:
        """Return the plan as lines of text."""
        protected = f"{self.unit}" if math.isfinite(self.epsilon) else "nobody: not private"
        if self.bytes_total == 0:
            protected = "task: nothing leaves it"
        rows = [
            ("method", f"{self.method}, {self.n_rounds} round(s)"),
            ("tasks × features", f"{self.n_tasks:,} × {self.n_features:,}"),
            ("budget", f"ε = {self.epsilon:.4g}, δ = {self.delta:.2g} ({self.adjacency})"),
            ("protected unit", protected),
        ]
        for release in self.releases:
            rows += [
                (f"{release.name}", f"{release.mechanism} noise on {release.n_numbers:,} numbers"),
                ("  noise multiplier", f"{release.noise_multiplier:.6g}"),
                ("  standard deviation", f"{release.standard_deviation:.6g}"),
                ("  noise to signal", f"{release.noise_to_signal:.3g} at best"),
            ]
        rows += [
            ("up, task and round", _bytes(self.bytes_up)),
            ("down, task and round", _bytes(self.bytes_down)),
            ("network, whole run", _bytes(self.bytes_total)),
            ("curator memory", _bytes(self.curator_memory)),
        ]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)

    def __str__(self) -> str:
        return self.table()


def _bytes(count: int) -> str:
    for power, unit in ((5, "PB"), (4, "TB"), (3, "GB"), (2, "MB"), (1, "kB")):
        if count >= 1000**power:
            return f"{count / 1000**power:.3g} {unit}"
    return f"{count} B"


@dataclass(frozen=True)
class _Shape:
    """What one round of a method sends: a sum of task messages clipped to K, or their moments."""

    kind: str  # "vector", "diagonal", "matrix" or "stack" (a vector per task, noised at the task)
    sensitivity: Callable[[float], float]
    signal: Callable[[float, int], float]
    side: Callable[[int, int], int] = lambda d, _k: d  # entries, or rows of a matrix
    share: float = 1.0  # relative noise budget


# The shared prior sends directions with a border of length B, and a ballot of 33 octaves.
_BORDERED = 1 + 0.4**2
_OCTAVES = 33
_MEAN = _Shape("vector", lambda K: 2 * K, lambda K, m: m * K, lambda d, k: d * k)
_MOMENT = _Shape("matrix", lambda K: math.sqrt(2) * K * K, lambda K, m: m * K * K)
_DIAGONAL = _Shape("diagonal", lambda K: math.sqrt(2) * K * K, lambda K, m: m * K * K)
_STACK = _Shape("stack", lambda K: 2 * K, lambda K, _m: K, lambda d, k: d * k)
_BORDER = _Shape(
    "matrix",
    lambda _K: math.sqrt(2) * _BORDERED,
    lambda _K, m: m * _BORDERED,
    lambda d, k: d + k,
)
_BALLOT = _Shape(
    "diagonal", lambda _K: math.sqrt(2), lambda _K, m: float(m), lambda _d, _k: _OCTAVES, 0.35
)

_RELEASES: dict[str, dict[str, _Shape]] = {
    "low-rank": {"second moment": _MOMENT},
    "low-rank-sparse": {"second moment": _MOMENT},
    "group-sparse": {"squared feature norms": _DIAGONAL},
    "shared-prior": {"bordered second moment": _BORDER, "length of the mean": _BALLOT},
    "mean-regularized": {"mean": _MEAN},
    "averaged": {"mean": _MEAN},
    "task-relationship": {"own model": _STACK},
    "transfer": {},
    "single-task": {},
    "pooled": {},
}
METHODS = tuple(sorted(_RELEASES))
_ONCE = {"averaged", "pooled", "shared-prior", "single-task", "task-relationship", "transfer"}


def _numbers(shape: _Shape, d: int) -> int:
    return d * (d + 1) // 2 if shape.kind == "matrix" else d


def _gaussian(shape: _Shape, name: str, d: int, K: float, m: int, noise: float) -> PlannedRelease:
    sensitivity = shape.sensitivity(K)
    scale = noise * sensitivity
    # GOE: variance s² on the diagonal and s²/2 off it, so E‖E‖_F² = s² d(d + 1)/2.
    numbers = _numbers(shape, d)
    mechanism = "symmetric-gaussian" if shape.kind == "matrix" else "gaussian"
    ratio = scale * math.sqrt(numbers) / shape.signal(K, m)
    return PlannedRelease(name, mechanism, numbers, sensitivity, noise, scale, ratio)


def _pure(shape: _Shape, name: str, d: int, K: float, m: int, noise: float) -> PlannedRelease:
    """Return the pure-ε release; ``noise`` is the ε of one release."""
    if shape.kind == "matrix":
        # A − B of W_d(d + 1, c I), c = S/2ε for trace sensitivity S (√2 times Frobenius's):
        # entries of variance 4(d+1)c² and 2(d+1)c².
        mechanism, sensitivity = "two-sided-wishart", math.sqrt(2) * shape.sensitivity(K)
        c = sensitivity / (2 * noise)
        deviation, norm = 2 * c * math.sqrt(d + 1), c * (d + 1) * math.sqrt(2 * d)
    elif shape.kind == "diagonal":
        mechanism, sensitivity = "laplace", math.sqrt(2) * shape.sensitivity(K)
        deviation = math.sqrt(2) * sensitivity / noise
        norm = deviation * math.sqrt(d)
    else:
        # ‖b‖ ~ Gamma(d, S/ε) in a uniform direction: E‖b‖² = d(d + 1)(S/ε)².
        mechanism, sensitivity = "gamma-vector", shape.sensitivity(K)
        deviation = math.sqrt(d + 1) * sensitivity / noise
        norm = deviation * math.sqrt(d)
    return PlannedRelease(
        name,
        mechanism,
        _numbers(shape, d),
        sensitivity,
        deviation / sensitivity,
        deviation,
        norm / shape.signal(K, m),
    )


def _objective(d: int, n: int | None, epsilon: float) -> PlannedRelease:
    """Return objective perturbation of rows of norm ≤ 1: ‖b‖ ~ Gamma(d, 2/ε), used as bᵀw/n."""
    if n is None:
        raise InvalidInput("n_rows=None: transfer protects rows; give the rows of one party")
    deviation = 2 * math.sqrt(d + 1) / epsilon
    ratio = deviation * math.sqrt(d) / n
    return PlannedRelease("source model", "gamma-vector", d, 2.0, deviation / 2, deviation, ratio)


def _releases(
    method: str,
    m: int,
    d: int,
    k: int,
    n: int | None,
    K: float,
    T: int,
    epsilon: float,
    delta: float,
) -> tuple[PlannedRelease, ...]:
    shapes = _RELEASES[method]
    if math.isinf(epsilon) or method in ("pooled", "single-task"):
        return ()
    if method == "transfer":
        return (_objective(d, n, epsilon),)
    shares = [shape.share for shape in shapes.values()] * T
    if delta > 0:
        make, noises = _gaussian, scale_gaussian(shares, epsilon, delta)
    else:
        make, noises = _pure, scale_pure(shares, epsilon)
    return tuple(
        make(shape, name, shape.side(d, k), K, m, float(noise))
        for (name, shape), noise in zip(shapes.items(), noises, strict=False)
    )


def _sizes(method: str, m: int, n: int | None, d: int, k: int) -> tuple[int, int, int]:
    """Return the numbers sent up and down by a task in a round, and held by the curator.

    Sums are taken as messages arrive, so memory does not grow with the tasks, except where the
    messages themselves are kept.
    """
    square = d * d
    if method in ("low-rank", "low-rank-sparse"):
        return d * k, square, 4 * square  # the sum, its noise, eigenvectors, the map
    if method == "shared-prior":
        bordered = (d + k) ** 2
        return d * k + _OCTAVES, bordered + _OCTAVES, 4 * bordered + 2 * _OCTAVES
    if method == "group-sparse":
        return d * k, d, 3 * d
    if method in ("mean-regularized", "averaged"):
        return d * k, d * k, 3 * d * k
    if method == "task-relationship":
        return d * k, m * d * k, m * d * k
    if method == "transfer":
        return d * k, d * k, d * k
    if method == "single-task":
        return 0, 0, 0
    if n is None:
        raise InvalidInput("n_rows=None: pooled sends the rows themselves; give rows per task")
    return n * (d + 1), d * k, m * n * (d + 1)


def plan(
    method: str,
    n_tasks: int,
    n_features: int,
    n_rows: int | None = None,
    epsilon: float = 1.0,
    delta: float | str = "auto",
    n_rounds: int = 1,
    *,
    clip: float = 1.0,
    n_outputs: int = 1,
    bytes_per_number: int = 8,
) -> Plan:
    """Return the noise, the bytes and the memory of a run, for up to 10⁹ tasks and more.

    Guarantee: the noise is what the sound mechanism needs for (ε, δ), full participation, the unit
    and adjacency named in the plan; nothing is read from data.

    Parameters
    ----------
    method : str
        One of `METHODS`.
    n_rows : int, optional
        Rows of one task; needed for ``"transfer"`` (its unit is the row) and ``"pooled"``.
    delta : float or "auto"
        "auto" is min(1e-5, 1/m²), or 1/n² for rows; 0 asks for pure ε.
    n_rounds : int
        Rounds with equal shares of the budget.
    clip : float
        K, the norm to which a message is clipped; 1 for directions.
    n_outputs : int
        Models per task (classes, one against the rest), clipped together.

    Examples
    --------
    >>> plan("group-sparse", 139, 27, epsilon=1.0, n_rounds=10).bytes_up
    216
    """
    _check.one_of("method", method, METHODS)
    m = _check.positive_integer("n_tasks", n_tasks, remedy="it is the number of parties")
    d = _check.positive_integer("n_features", n_features, remedy="it is the columns of X")
    k = _check.positive_integer("n_outputs", n_outputs, remedy="it is 1, or the classes")
    T = _check.positive_integer("n_rounds", n_rounds, remedy="use at least one round")
    width = _check.positive_integer("bytes_per_number", bytes_per_number, remedy="use 8 or 4")
    n = (
        None
        if n_rows is None
        else _check.positive_integer("n_rows", n_rows, remedy="rows of a task")
    )
    K = _check.positive("clip", clip, remedy="use 1 for directions")
    epsilon = check_epsilon(epsilon)
    unit = Unit.ROW if method == "transfer" else Unit.TASK
    counted = n if unit is Unit.ROW and n is not None else m
    if delta == "auto":
        delta = min(1e-5, 1.0 / counted**2)
    if isinstance(delta, str):
        raise InvalidInput(f"delta={delta!r}: must be 'auto' or a number in [0, 1)")
    delta = check_delta(delta)
    if method in _ONCE and T != 1:
        raise InvalidInput(f"n_rounds={T}: {method!r} speaks once; use n_rounds=1")

    releases = _releases(method, m, d, k, n, K, T, epsilon, delta)
    up, down, held = (width * size for size in _sizes(method, m, n, d, k))
    return Plan(
        method=method,
        n_tasks=m,
        n_features=d,
        n_rows=n,
        # Pooling sends the rows; learning alone sends nothing.
        epsilon={"pooled": math.inf, "single-task": 0.0}.get(method, epsilon),
        delta=delta,
        n_rounds=T,
        unit=unit,
        adjacency=Adjacency.REPLACE_ONE,
        releases=releases,
        bytes_up=up,
        bytes_down=down,
        bytes_total=m * T * (up + down),
        curator_memory=held,
    )
