"""``tacit audit``: an attack's lower bound next to the claim."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column, Table

from tacit.cli._exits import CHECK_FAILED
from tacit.cli._options import number_or_auto
from tacit.cli._output import Json, Output, Quiet, begin
from tacit.errors import InvalidInput

__all__ = ["audit"]


def audit(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="A mechanism, a run folder (every mechanism it used), or, with --attack, an "
            "estimator.",
        ),
    ],
    epsilon: Annotated[
        float | None, typer.Option(help="The claim; default 1, or the run's own.")
    ] = None,
    delta: Annotated[
        str | None, typer.Option(help="The claim's δ; default 0 (1e-5 for Gaussian).")
    ] = None,
    features: Annotated[int, typer.Option(help="Length of a message.")] = 10,
    trials: Annotated[int | None, typer.Option(help="Releases of each neighbour.")] = None,
    confidence: Annotated[float, typer.Option(help="That the bound holds.")] = 0.999,
    seed: Annotated[int | None, typer.Option(help="Makes the audit repeatable.")] = None,
    attack: Annotated[
        str | None,
        typer.Option(help="A standing attack: structure, abort, bit, ledger or all."),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Attack a mechanism and print the ε it cannot be below; exit code 5 if the claim is refuted.

    A run folder's mechanisms are attacked one by one, each calibrated to the run's whole budget.

    With --attack nothing is estimated: does anything go past the noise, in bits, errors, other
    tasks' results, or calls that the ledger does not count?

    Example: tacit audit two-sided-wishart --epsilon 1

    Example: tacit audit LowRankRegressor --attack all
    """
    output = begin(quiet=quiet, as_json=json)
    if attack is not None:
        _standing(output, target, attack)
        return
    names, claimed, delta_claimed = _claim(target, epsilon, number_or_auto("--delta", delta))
    from tacit.audit import audit_mechanism

    results = []
    with output.warnings_as_lines():
        for number, name in enumerate(names):
            with output.step(f"attacking {name}") as advance:
                advance(number, len(names))
                results.append(
                    audit_mechanism(
                        name,
                        epsilon=claimed,
                        delta=delta_claimed,
                        n_features=features,
                        n_trials=trials,
                        confidence=confidence,
                        random_state=seed,
                    )
                )
    table = Table(Column("mechanism", no_wrap=True), "claim", "at least", "tightness", "verdict")
    for result in results:
        table.add_row(
            result.target,
            f"ε = {result.claimed_epsilon:.4g}, δ = {result.delta:.2g}",
            f"ε ≥ {result.epsilon_lower:.4g}",
            f"{result.tightness:.2f}",
            "VIOLATED" if result.violated else "not violated",
        )
    output.show(table)
    output.show(
        f"{100 * confidence:g} % confidence, {results[0].n_trials} trials a side; no violation "
        "proves nothing by itself, tightness 1 is an attack as strong as the claim allows"
    )
    output.result({"results": [result.to_dict() for result in results]})
    if any(result.violated for result in results):
        output.warn("a claim is refuted: do not rely on this mechanism")
        raise typer.Exit(CHECK_FAILED)


def _standing(output: Output, target: str, attack: str) -> None:
    """Put standing attacks to the target and show what each found."""
    from tacit.audit import run_attack

    with output.warnings_as_lines(), output.step(f"attacking {target}"):
        results = run_attack(target, attack)
    table = Table("target", Column("attack", no_wrap=True), "runs", "verdict")
    for result in results:
        found = result.findings
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        verdict = f"LEAKS: {found[0]}{more}" if found else "nothing found"
        table.add_row(result.target, result.attack, str(result.n_runs), verdict)
    output.show(table)
    output.result({"results": [result.to_dict() for result in results]})
    if any(result.violated for result in results):
        output.warn("something goes past the noise: do not rely on this target")
        raise typer.Exit(CHECK_FAILED)


def _claim(
    target: str, epsilon: float | None, delta: float | str | None
) -> tuple[tuple[str, ...], float, float]:
    """Return the mechanisms to attack and the (ε, δ) they claim."""
    from tacit.audit import AUDITABLE

    if delta == "auto":
        raise InvalidInput("--delta auto: state the claim as a number, for example 1e-5")
    if target in AUDITABLE:
        return (target,), 1.0 if epsilon is None else epsilon, float(delta or 0.0)
    folder = Path(target)
    if not folder.is_dir():
        raise InvalidInput(
            f"{target!r}: neither a run folder nor a mechanism; known are {', '.join(AUDITABLE)}"
        )
    from tacit.cli._run_folder import load_run

    statement = load_run(folder)[0].privacy_
    names = tuple(name for name in statement.mechanisms if name in AUDITABLE)
    if not statement.private or not names:
        raise InvalidInput(f"{target}: the run made no private release, there is nothing to audit")
    return (
        names,
        statement.epsilon if epsilon is None else epsilon,
        statement.delta if delta is None else float(delta),
    )
