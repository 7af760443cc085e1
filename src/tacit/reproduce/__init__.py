"""Papers' figures, run again, and what the papers claim about them, judged by name.

A paper is a folder of the checkout's ``papers/``: one TOML file a figure (settings, methods and
claims) and a package with ``value(config, panel, method, run, x)``, which measures one method once,
and ``draw(config, record, path)``. They need the checkout because they are experiments, not part of
the installed package.
"""

from tacit.reproduce._claims import Claim, Finding, judge
from tacit.reproduce._figures import (
    available,
    judge_recorded,
    keeps_results,
    lacking,
    papers_folder,
    reproduce,
)
from tacit.reproduce._pictures import draw_lines
from tacit.reproduce._record import Record
from tacit.reproduce._table import claim_table

__all__ = [
    "Claim",
    "Finding",
    "Record",
    "available",
    "claim_table",
    "draw_lines",
    "judge",
    "judge_recorded",
    "keeps_results",
    "lacking",
    "papers_folder",
    "reproduce",
]
