"""Where random bits come from, and the choices that need nothing but bits.

`SystemEntropy` asks the operating system for every word: no state to leak, to fork or to reuse.
The kernel's generator is itself a cryptographic stream (ChaCha20 on Linux); keying another one
from it in user space (SHAKE-128 through `hashlib`) measured no faster, so there is no second
stream. `SeededEntropy` repeats itself and exists for tests and figures only; whatever is released
with it is marked ``seeded``.
"""

from __future__ import annotations

import hashlib
import math
import os
from abc import ABC, abstractmethod
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit._check import positive_integer
from tacit.errors import InvalidInput

__all__ = [
    "Entropy",
    "KeyedEntropy",
    "SeededEntropy",
    "SystemEntropy",
    "bernoulli",
    "entropy_from",
    "sample_without_replacement",
]

Words = NDArray[np.uint64]
_WORD = 64
_KEY_BYTES = 32
_BLOCK_WORDS = 1024  # of one size, so that the stream does not depend on who asks for how much


class Entropy(ABC):
    """A source of independent uniform 64-bit words.

    Guarantee: none by itself. Privacy guarantees assume words that nobody can predict; only a
    source with ``system = True`` claims that.

    ``repeats`` says whether the source can say its words again, so that the order in which they
    are asked for shows; one that does not may be asked by several threads at once.
    """

    system: ClassVar[bool]
    repeats: ClassVar[bool] = True

    @abstractmethod
    def words(self, count: int) -> Words:
        """Return ``count`` uniform words."""

    def child(self, *context: object) -> Entropy:  # noqa: ARG002
        """Return the source for one purpose, named by ``context`` (a run, a call, a task).

        A repeatable source gives the same child for the same context and independent ones for
        different contexts, so that a run taken up again says what it said before.
        """
        raise InvalidInput(f"{type(self).__name__}: has no sources by name; add a child method")

    def integer(self, n_words: int) -> int:
        """Return one uniform integer below ``2 ** (64 * n_words)``."""
        return int.from_bytes(self.words(n_words).tobytes(), "little")


class SystemEntropy(Entropy):
    """Words from the operating system's cryptographic generator.

    Guarantee: as unpredictable as the operating system's generator; never repeats a stream, not
    even in forked processes.
    """

    system: ClassVar[bool] = True
    repeats: ClassVar[bool] = False

    def words(self, count: int) -> Words:
        """Return ``count`` uniform words."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)

    def child(self, *context: object) -> SystemEntropy:  # noqa: ARG002
        """Return the system's source itself: nothing it says is ever said twice."""
        return self


class SeededEntropy(Entropy):
    """Words that repeat with their seed: for tests and figures, never for a private release.

    Guarantee: none. Whoever knows the seed can subtract the noise, and PCG64 can be predicted from
    its output.
    """

    system: ClassVar[bool] = False

    def __init__(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
            raise InvalidInput(f"seed={seed!r}: must be a whole number of at least 0")
        self._seed: int = int(seed)
        self._generator: np.random.PCG64 = np.random.PCG64(self._seed)

    def words(self, count: int) -> Words:
        """Return ``count`` uniform words."""
        words: Words = self._generator.random_raw(count)
        return words

    def child(self, *context: object) -> SeededEntropy:
        """Return the source seeded by this seed and ``context``."""
        named = hashlib.sha256(repr((self._seed, *context)).encode()).digest()
        return SeededEntropy(int.from_bytes(named[:16], "little"))


class KeyedEntropy(Entropy):
    """Words that a secret key repeats to its owner and to nobody else.

    What a party says must be the same bytes if it is asked again after a crash. Its noise
    therefore comes from a key that never leaves it and from the name of the call.

    Guarantee: SHAKE-256 of the key and a counter is indistinguishable from random words to whoever
    does not hold the key; with a key of 256 bits from the operating system it counts as system
    entropy. The key protects what was said as long as it is kept secret.
    """

    system: ClassVar[bool] = True

    def __init__(self, key: bytes) -> None:
        if len(key) < _KEY_BYTES:
            raise InvalidInput(f"key: {len(key)} bytes; give {_KEY_BYTES} from KeyedEntropy.new()")
        self._key = bytes(key)
        self._block = 0
        self._rest = np.empty(0, dtype=np.uint64)

    @staticmethod
    def new() -> bytes:
        """Return a fresh secret key from the operating system."""
        return os.urandom(_KEY_BYTES)

    def words(self, count: int) -> Words:
        """Return ``count`` uniform words."""
        parts, have = [self._rest], self._rest.size
        while have < count:
            header = self._key + self._block.to_bytes(8, "little")
            block = hashlib.shake_256(header).digest(8 * _BLOCK_WORDS)
            parts.append(np.frombuffer(block, dtype=np.uint64))
            self._block += 1
            have += parts[-1].size
        words: Words = np.concatenate(parts)
        self._rest = words[count:]
        return words[:count]

    def child(self, *context: object) -> KeyedEntropy:
        """Return the source of a key derived from this one and ``context``."""
        named = repr(context).encode()
        return KeyedEntropy(hashlib.blake2b(named, key=self._key[:64], digest_size=32).digest())


def entropy_from(random_state: Any = None) -> Entropy:
    """Return the entropy that a scikit-learn style ``random_state`` asks for.

    ``None`` gives `SystemEntropy`; a whole number, a `numpy.random.Generator` or a
    `numpy.random.RandomState` gives a `SeededEntropy`; an `Entropy` is returned as it is.
    """
    if random_state is None:
        return SystemEntropy()
    if isinstance(random_state, KeyedEntropy):
        raise InvalidInput(
            "random_state: a key repeats its noise in every fit, and two releases with the same "
            "noise show their difference; leave random_state=None (a run folder keeps its own key)"
        )
    if isinstance(random_state, Entropy):
        return random_state
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):
        return SeededEntropy(int(random_state))
    if isinstance(random_state, np.random.RandomState):
        return SeededEntropy(int(random_state.randint(2**31)))
    if isinstance(random_state, np.random.Generator):
        return SeededEntropy(int(random_state.integers(2**63)))
    raise InvalidInput(
        f"random_state={random_state!r}: must be None, a whole number of at least 0, "
        "a numpy generator or a tacit Entropy"
    )


def bernoulli(probability: float, size: int, entropy: Entropy) -> NDArray[np.bool_]:
    """Return ``size`` independent coins, each true with exactly ``probability``.

    Guarantee: exact. A uniform real U is drawn 64 bits at a time; ``probability`` is a dyadic
    rational, so U < probability is decided by the first words that differ, and by equality (which
    means "not below") once the bits of ``probability`` are used up.
    """
    if not 0 <= probability <= 1:
        raise InvalidInput(f"probability={probability!r}: must lie between 0 and 1")
    numerator, denominator = float(probability).as_integer_ratio()
    n_words = max(1, math.ceil((denominator.bit_length() - 1) / _WORD))
    threshold = numerator << (_WORD * n_words - (denominator.bit_length() - 1))
    first, rest = divmod(threshold, 1 << (_WORD * (n_words - 1)))
    if first >> _WORD:
        return np.ones(size, dtype=bool)
    words = entropy.words(size)
    below = words < np.uint64(first)
    if rest:
        for index in np.flatnonzero(words == np.uint64(first)):
            below[index] = entropy.integer(n_words - 1) < rest
    return below


def sample_without_replacement(population: int, size: int, entropy: Entropy) -> NDArray[np.int64]:
    """Return ``size`` distinct indices below ``population``, uniform over all such sets, sorted.

    Guarantee: exact. Every index gets a 64-bit key and the smallest keys win; the draw is repeated
    when two keys are equal, so all orders of the keys are equally likely.
    """
    population = positive_integer("population", population, remedy="give the number of units")
    size = positive_integer("size", size, remedy="give the size of the cohort")
    if size > population:
        raise InvalidInput(f"size={size}: must be at most population={population}")
    while True:
        keys = entropy.words(population)
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        if not np.any(ordered[1:] == ordered[:-1]):
            return np.sort(order[:size]).astype(np.int64)
