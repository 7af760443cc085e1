"""Run a paper's figure again: ``python -m tacit.reproduce model-protected/fig6 --quick``.

The figures live in the checkout's ``papers/`` folder, one TOML file each beside the paper's
``figures.py``, which offers ``run(config, *, quick, out, progress) -> list[Check]``. They need the
checkout because they are experiments, not part of the installed package.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.errors import DataNotFound, InvalidInput

__all__ = ["Check", "available", "main", "papers_folder", "reproduce"]


@dataclass(frozen=True)
class Check:
    """One expectation of a figure and whether the run met it."""

    text: str
    passed: bool


def papers_folder() -> Path:
    """Return the checkout's ``papers/``: ``TACIT_PAPERS``, beside the package, or below here."""
    named = os.environ.get("TACIT_PAPERS")
    candidates = [Path(named)] if named else []
    candidates += [Path(__file__).resolve().parents[2] / "papers", Path.cwd() / "papers"]
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    raise DataNotFound(
        "papers: no such folder; run inside a checkout of tacit, or set TACIT_PAPERS to its papers/"
    )


def available() -> dict[str, Path]:
    """Return every figure that can be run, by name (``model-protected/fig6``)."""
    found = {}
    for path in sorted(papers_folder().glob("*/*.toml")):
        if (path.parent / "figures.py").exists():
            found[f"{path.parent.name.replace('_', '-')}/{path.stem}"] = path
    return found


def _runner(folder: Path) -> Callable[..., list[Check]]:
    """Import the paper's own ``figures`` module from its folder."""
    sys.path.insert(0, str(folder))
    try:
        for name in ("figures", "experiments"):
            sys.modules.pop(name, None)  # another paper's, if two are run in one process
        module: Any = importlib.import_module("figures")
    finally:
        sys.path.remove(str(folder))
    runner: Callable[..., list[Check]] = module.run
    return runner


def reproduce(
    name: str, *, quick: bool = False, out: str | os.PathLike[str] = "out", progress: bool = True
) -> list[Check]:
    """Run a figure; write ``<out>/<paper>/<figure>.csv`` and ``.png``; return the checks.

    A run that was interrupted continues: rows already in the CSV are not computed again.

    Parameters
    ----------
    quick : bool
        A few runs and privacy levels instead of the paper's 100 runs.
    """
    figures = available()
    if name not in figures:
        raise InvalidInput(f"figure={name!r}: must be one of {', '.join(figures)}")
    path = figures[name]
    config = tomllib.loads(path.read_text(encoding="utf-8"))
    config["figure"] = path.stem + ("-quick" if quick else "")
    folder = Path(out) / name.split("/")[0]
    folder.mkdir(parents=True, exist_ok=True)
    return _runner(path.parent)(config, quick=quick, out=folder, progress=progress)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; exits with 5 if an expectation is not met."""
    parser = argparse.ArgumentParser(prog="python -m tacit.reproduce", description=__doc__)
    parser.add_argument("figure", nargs="?", help="for instance model-protected/fig6")
    parser.add_argument("--quick", action="store_true", help="few runs, few privacy levels")
    parser.add_argument("--out", default="out", help="folder of results")
    parser.add_argument("--no-progress", action="store_true")
    options = parser.parse_args(arguments)
    if options.figure is None:
        print("\n".join(available()))
        return 0
    checks = reproduce(
        options.figure, quick=options.quick, out=options.out, progress=not options.no_progress
    )
    for check in checks:
        print(f"{'met' if check.passed else 'NOT MET'}: {check.text}")
    return 0 if all(check.passed for check in checks) else 5


if __name__ == "__main__":
    sys.exit(main())
