"""Find the papers' figures, run them, and judge their claims."""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

from threadpoolctl import threadpool_limits

from tacit.errors import DataNotFound, InvalidInput
from tacit.reproduce._claims import Finding, judge, with_published
from tacit.reproduce._record import Record

__all__ = ["available", "judge_recorded", "keeps_results", "lacking", "papers_folder", "reproduce"]

Config = dict[str, Any]
_NO_SETTINGS = ("title", "claim", "needs", "runs", "quick_runs", "x", "quick_x")
_MODULES = {"neural": "jax"}  # what an extra of ours brings
Measured = list[tuple[tuple[str, str, str], float]]


def papers_folder() -> Path:
    """Return the checkout's ``papers/``: ``TACIT_PAPERS``, beside the package, or below here."""
    named = os.environ.get("TACIT_PAPERS")
    candidates = [Path(named)] if named else []
    candidates += [Path(__file__).resolve().parents[3] / "papers", Path.cwd() / "papers"]
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    raise DataNotFound(
        "papers: no such folder; run inside a checkout of tacit, or set TACIT_PAPERS to its papers/"
    )


def available() -> dict[str, Path]:
    """Return every figure that can be run, by name (``model-protected/fig6``)."""
    found = sorted(papers_folder().glob("*/*.toml"), key=lambda path: (path.parent, _order(path)))
    return {f"{path.parent.name.replace('_', '-')}/{path.stem}": path for path in found}


def _order(path: Path) -> tuple[str, int]:
    letters = path.stem.rstrip("0123456789")
    return letters, int(path.stem[len(letters) :] or 0)


def _settings(name: str) -> tuple[Config, Path]:
    figures = available()
    if name not in figures:
        raise InvalidInput(f"figure={name!r}: must be one of {', '.join(figures)}")
    path = figures[name]
    return tomllib.loads(path.read_text(encoding="utf-8")), path


def lacking(name: str) -> str | None:
    """Return the extra that a figure ``needs`` and that is not installed, if there is one."""
    extra = _settings(name)[0].get("needs")
    return extra if extra and importlib.util.find_spec(_MODULES[extra]) is None else None


def _paper(folder: Path) -> ModuleType:
    """Import a paper's package from its folder, under a name that no other paper has."""
    name = f"tacit_paper_{folder.name}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        raise DataNotFound(f"{folder}: not a package; it needs an __init__.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class _Job:
    """Methods to measure on one run's data at one level."""

    folder: Path
    config: Config
    panel: Mapping[str, Any]
    run: int
    x: Any
    methods: tuple[Mapping[str, Any], ...]

    def measure(self) -> Measured:
        """Return every value with its key.

        A method may have values at levels of its own, and, as (panel, level), in other panels that
        are measured along with this one.
        """
        paper, found = _paper(self.folder), []
        for method in self.methods:
            value = paper.value(self.config, self.panel, method, self.run, self.x)
            levels = (
                value
                if isinstance(value, Mapping)
                else {_level(self.config, method, self.x): value}
            )
            for key, number in levels.items():
                panel, x = key if isinstance(key, tuple) else (self.panel["name"], key)
                found.append(((panel, method["name"], str(x)), float(number)))
        return found


def _level(config: Config, method: Mapping[str, Any], x: Any) -> Any:
    # A method without privacy does not depend on ε: measured once, drawn as a line.
    return "all" if method.get("open") and config.get("x_is_epsilon", True) else x


def _jobs(
    config: Config, folder: Path, record: Record, quick: bool, asked: int | None
) -> list[_Job]:
    runs = range(asked or (config["quick_runs"] if quick else config["runs"]))
    config["levels"] = config.get("quick_x", config["x"]) if quick else config["x"]
    left_out = {p["name"] for p in config["panel"] if quick and not p.get("quick", True)}
    config["left_out"] = sorted(left_out)
    jobs, begun = [], set()
    measured = [
        panel for panel in config["panel"] if "along" not in panel and panel["name"] not in left_out
    ]
    for panel, run, x in itertools.product(measured, runs, config["levels"]):
        together = {p["name"] for p in config["panel"] if p.get("along") == panel["name"]}
        wanted = []
        for method in config["method"]:
            if method.get("panel", panel["name"]) != panel["name"]:
                continue
            level = str(_level(config, method, x))
            sought = (panel["name"], method["name"], None if config.get("own_levels") else level)
            known = any(record.has((name, *sought[1:]), run) for name in {sought[0], *together})
            if (sought, run) not in begun and not known:
                begun.add((sought, run))
                wanted.append(method)
        if wanted:
            jobs.append(_Job(folder, config, panel, run, x, tuple(wanted)))
    return jobs


def _one_thread() -> None:
    threadpool_limits(1)


def _results(jobs: Sequence[_Job], pool: Executor | None) -> Iterator[tuple[_Job, Measured]]:
    if pool is None:
        for job in jobs:
            yield job, job.measure()
        return
    waiting: dict[Future[Measured], _Job] = {pool.submit(job.measure): job for job in jobs}
    try:
        for done in as_completed(waiting):
            yield waiting[done], done.result()
    finally:
        for future in waiting:
            future.cancel()


def reproduce(
    names: Sequence[str],
    *,
    quick: bool = False,
    runs: int | None = None,
    out: str | os.PathLike[str] = "out",
    jobs: int = 1,
    progress: bool = True,
) -> dict[str, list[Finding]]:
    """Run figures; write ``<out>/<paper>/<figure>.csv`` and ``.png``; return what was found.

    A run that was interrupted continues: values already in the CSV are not computed again (they
    are if the figure's settings changed, because then the file has another name).

    Parameters
    ----------
    quick : bool
        A few runs and levels instead of all.
    runs : int, optional
        Another number of runs than the figure's own.
    jobs : int
        Processes to share the work.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise InvalidInput("reproduce: draws with matplotlib; pip install 'tacit[report]' first")
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    settings = {name: _settings(name) for name in names}
    for name in names:
        if extra := lacking(name):
            raise InvalidInput(f"{name}: pip install 'tacit[{extra}]' first")
    columns = (TextColumn("{task.description:24}"), BarColumn(), MofNCompleteColumn())
    findings = {}
    context = get_context("forkserver" if sys.platform != "win32" else "spawn")
    pool = ProcessPoolExecutor(jobs, context, initializer=_one_thread) if jobs > 1 else None
    try:
        with Progress(*columns, TimeElapsedColumn(), disable=not progress) as bar:
            for name, (config, path) in settings.items():
                stem, record = _place(Path(out), name, path, quick)
                wanted = _jobs(config, path.parent, record, quick, runs)
                meter = bar.add_task(name, total=len(wanted))
                for job, measured in _results(wanted, pool):
                    for key, value in measured:
                        record.add(key, job.run, value)
                    bar.advance(meter)
                shown = with_published(config, record)
                _paper(path.parent).draw(config, shown, stem.with_suffix(".png"))
                record.save(stem.with_suffix(".csv"))
                findings[name] = judge(config, shown)
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)
    return findings


def _place(out: Path, name: str, path: Path, quick: bool) -> tuple[Path, Record]:
    """Return the path of a figure's results without suffix, and the record of these settings."""
    folder = out / name.split("/")[0]
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / (path.stem + ("-quick" if quick else ""))
    config, _ = _settings(name)
    settings = {k: v for k, v in config.items() if k not in _NO_SETTINGS}
    chosen = getattr(
        _paper(path.parent), "chosen", _nothing
    )  # what a paper keeps in files of its own
    digest = hashlib.sha256(repr((settings, chosen(config))).encode()).hexdigest()[:8]
    return stem, Record.open(folder / f"{stem.name}.{digest}.runs.csv")


def _nothing(config: Config) -> None:  # noqa: ARG001 - a paper's own function has the argument
    return None


def keeps_results(name: str) -> bool:
    """Say whether the paper keeps results of this figure in its ``results/``."""
    path = available()[name]
    return (path.parent / "results" / f"{path.stem}.csv").exists()


def judge_recorded(name: str) -> list[Finding]:
    """Judge the results that are kept in the paper's ``results/``, without running anything."""
    config, path = _settings(name)
    kept = path.parent / "results" / f"{path.stem}.csv"
    if not kept.exists():
        raise DataNotFound(f"{name}: no results/{path.stem}.csv is kept; run the figure instead")
    return judge(config, with_published(config, Record.read(kept)))
