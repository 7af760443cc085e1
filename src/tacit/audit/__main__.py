"""Audit a mechanism from the command line: ``python -m tacit.audit laplace --epsilon 1``.

Prints the attack's lower bound next to the claim; the exit status is 1 if the claim is refuted.
"""

from __future__ import annotations

import argparse
import sys

from tacit.audit import AUDITABLE, audit_mechanism


def main(arguments: list[str] | None = None) -> int:
    """Run the audit that ``arguments`` ask for and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tacit.audit", description=__doc__)
    parser.add_argument("mechanism", choices=AUDITABLE)
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--trials", type=int)
    parser.add_argument("--confidence", type=float, default=0.999)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args(arguments)
    result = audit_mechanism(
        chosen.mechanism,
        epsilon=chosen.epsilon,
        delta=chosen.delta,
        n_features=chosen.features,
        n_trials=chosen.trials,
        confidence=chosen.confidence,
        random_state=chosen.seed,
    )
    sys.stdout.write(f"{result.to_json() if chosen.json else result}\n")
    return int(result.violated)


if __name__ == "__main__":
    sys.exit(main())
