"""The claims of all figures as one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tacit.reproduce._claims import Finding

__all__ = ["claim_table"]


def claim_table(findings: Mapping[str, Sequence[Finding]]) -> str:
    """Return a Markdown table: figure, claim, what we measured, verdict."""
    lines = ["| figure | the paper's claim | ours | verdict |", "|---|---|---|---|"]
    for name, found in findings.items():
        for finding in found:
            claim = finding.claim
            verdict = (
                claim.words if finding.upheld else f"**CONTRADICTED** by this run: {claim.words}"
            )
            said = f"**{claim.name}** ({claim.where}): {claim.says}"
            lines.append(f"| {name} | {said} | {finding.ours} | {verdict} |")
    return "\n".join(lines)
