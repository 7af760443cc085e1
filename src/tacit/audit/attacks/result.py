"""What a standing attack found."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from tacit.errors import PrivacyLeak

__all__ = ["AttackResult"]


@dataclass(frozen=True)
class AttackResult:
    """The verdict of one standing attack, with its evidence in words.

    Attributes
    ----------
    attack
        Which of `tacit.audit.attacks.ATTACKS`.
    target
        What was attacked.
    findings
        Everything that tells two data sets apart, or that the ledger does not count.
    n_runs
        How many runs of the target the verdict rests on.

    Guarantee: a finding is a demonstration, with the data the attack made; no finding says that
    this attack found nothing, and no more.
    """

    attack: str
    target: str
    findings: tuple[str, ...]
    n_runs: int

    @property
    def violated(self) -> bool:
        """Whether the attack succeeded."""
        return bool(self.findings)

    def check(self) -> None:
        """Raise `PrivacyLeak` with all findings if the attack succeeded."""
        if self.violated:
            raise PrivacyLeak(str(self))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "violated": self.violated}

    def to_json(self) -> str:
        """Return the result as one line of JSON."""
        return json.dumps(self.to_dict())

    def __str__(self) -> str:
        found = "; ".join(self.findings) if self.findings else "nothing found"
        return f"{self.target}, {self.attack} attack, {self.n_runs} runs: {found}"
