"""Attacks on tacit's own guarantees: empirical lower bounds next to every claim.

`audit_mechanism` attacks one release, `audit_estimator` a whole fit (`audit_at_worst` with data of
the attacker's choice, `audit_in_one_run` with a single fit), and `replay` checks a protocol's
declared sensitivity with the noise frozen. The four standing attacks of `tacit.audit.attacks` look
for what goes past the noise.
"""

from tacit.audit.attacks import ATTACKS, AttackResult, run_attack
from tacit.audit.canary import CanaryPair, canary_pairs
from tacit.audit.estimator import audit_estimator
from tacit.audit.mechanism import audit_mechanism
from tacit.audit.neighbours import replace_row, replace_task
from tacit.audit.one_run import audit_in_one_run
from tacit.audit.replay import ReplayResult, replay, replay_estimator, search
from tacit.audit.result import AuditResult
from tacit.audit.specimens import AUDITABLE
from tacit.audit.tightness import audit_at_worst

__all__ = [
    "ATTACKS",
    "AUDITABLE",
    "AttackResult",
    "AuditResult",
    "CanaryPair",
    "ReplayResult",
    "audit_at_worst",
    "audit_estimator",
    "audit_in_one_run",
    "audit_mechanism",
    "canary_pairs",
    "replace_row",
    "replace_task",
    "replay",
    "replay_estimator",
    "run_attack",
    "search",
]
