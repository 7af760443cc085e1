"""The run folder: everything a fit leaves behind, written whole or not at all.

The files are built in a hidden folder beside the run folder (``.run.stage-…``) and renamed into
place when all of them are there, ``manifest.json`` last: a folder without it is an unfinished run
and is never read as a model. A failure removes what was built; what a killed process left, the next
run into the same folder removes, once it holds the folder's lock.

The ledger is not in it: it belongs to the data, outlives the run folder, and every release is
charged to it, on disk, before it is made (see `tacit.cli.guard`).

While a run is unfinished, ``unfinished/`` holds what ``tacit fit --resume`` needs to go on with it:
the settings, a fingerprint of the data, and the run's `tacit.engines.Checkpoint`, that is its
releases and the secret key of its noise. It appears and disappears in one rename.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import hashlib
import io
import json
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from tacit import models
from tacit._files import write_whole
from tacit._types import Array
from tacit.cli._output import current
from tacit.cli.run.seal import SEAL, SIGNATURE, check_files, read_seal, write_seal
from tacit.cli.table.features import Intake
from tacit.cli.table.read import format_of
from tacit.engines import Checkpoint
from tacit.errors import InvalidInput, ModelFileError

__all__ = [
    "CONFIG",
    "EVALUATION",
    "LEDGER",
    "RUN_FILES",
    "RunFolder",
    "data_of_run",
    "ledger_of_run",
    "load_intake",
    "load_run",
    "table_csv",
    "unfinished",
    "version_of",
    "write_intake",
]

LEDGER = "ledger.db"  # where versions before the register kept a run's ledger
EVALUATION = "evaluation.csv"
CONFIG = "config.toml"
_MANIFEST = "manifest.json"
_FILES = (
    "statement.json",
    "history.csv",
    CONFIG,
    "report.html",
    "billboard.npz",
    EVALUATION,
    "coefficients.csv",
    "coefficients.json",
    "model.onnx",
    SEAL,
    SIGNATURE,
    "transfer.json",
)
RUN_FILES = frozenset(_FILES) - {SEAL, SIGNATURE, "report.html"}  # those that a seal covers
_INTAKE = "intake"
_UNFINISHED = "unfinished"
_FINGERPRINT = "data.sha256"


class RunFolder:
    """A run folder under construction; use it as a context manager and `commit` at the end."""

    def __init__(self, path: Path, *, force: bool = False, resume: bool = False) -> None:
        self.path = path
        self._force = force
        self._resume = resume
        self._checkpoint: Checkpoint | None = None
        self._committed = False

    def __enter__(self) -> Self:
        if self.path.exists() and not self.path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "is a file", str(self.path))
        self._new_folder = not self.path.exists()
        # Both folders now, so that a place that cannot be written is found before the budget is.
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self.path)
        try:
            if self._lock is not None:
                _remove_stale_stages(self.path)
            if any(self.path.iterdir()) and not (self._force or self._resume):
                raise InvalidInput(self._in_the_way())
            whole = self.path.absolute()
            self.stage = Path(tempfile.mkdtemp(prefix=_stage_prefix(whole), dir=whole.parent))
        except BaseException:
            self._leave()
            raise
        return self

    def _in_the_way(self) -> str:
        if unfinished(self.path).exists():
            return (
                f"--out {self.path}: holds a run that was interrupted; go on with it (tacit fit "
                f"--resume {self.path}), or say --force to start anew (what was spent stays spent)"
            )
        return (
            f"--out {self.path}: the folder is not empty; choose another one, or say --force to "
            "replace the run in it (what was spent stays spent)"
        )

    def checkpoint(
        self, config: str, data: Path, seen: tuple[int, ...] | None = None
    ) -> Checkpoint:
        """Return where the run is kept while it is unfinished: a new one, or the one begun.

        ``seen`` is the `version_of` the file before it was read.
        """
        place, fingerprint = unfinished(self.path), _fingerprint(data)
        if seen is not None and seen != version_of(data):
            raise InvalidInput(f"{data}: has changed since it was read; fit again")
        if self._resume:
            if (place / _FINGERPRINT).read_text() != fingerprint:
                raise InvalidInput(
                    f"--resume {self.path}: {data} has changed since the run began; restore it, or "
                    "start anew in another folder"
                )
        else:
            aside = self.stage / _UNFINISHED
            Checkpoint.begin(aside)
            write_whole(aside / CONFIG, config)
            write_whole(aside / _FINGERPRINT, fingerprint)
            self._put_away(place)
            os.rename(aside, place)
        self._checkpoint = Checkpoint(place, _about(place / CONFIG, fingerprint))
        return self._checkpoint

    def _put_away(self, place: Path) -> None:
        """Remove a folder in one step, seen from outside."""
        if place.exists():
            os.rename(place, self.stage / "gone")
            shutil.rmtree(self.stage / "gone")

    def write(self, name: str, content: str | bytes) -> None:
        """Add a file to the folder under construction."""
        write_whole(self.stage / name, content)

    def commit(self) -> None:
        """Put all files in place; the model's manifest comes last."""
        if not (self.stage / SEAL).exists():
            write_seal(self.stage)
        (self.path / _MANIFEST).unlink(missing_ok=True)
        for old in (*self.path.glob("arrays-*.npz"), *(self.path / name for name in _FILES)):
            old.unlink(missing_ok=True)
        shutil.rmtree(self.path / _INTAKE, ignore_errors=True)
        for part in sorted(self.stage.iterdir(), key=lambda part: part.name == _MANIFEST):
            os.rename(part, self.path / part.name)
        self._put_away(unfinished(self.path))
        self._committed = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        kept = self._checkpoint is not None and (self._checkpoint.begun or self._resume)
        if not self._committed and self._checkpoint is not None and not kept:
            self._put_away(unfinished(self.path))
        shutil.rmtree(self.stage, ignore_errors=True)
        if not self._committed and kept:
            current().warn(f"go on with: tacit fit --resume {self.path}")
        self._leave()

    def _leave(self) -> None:
        if self._new_folder:
            with contextlib.suppress(OSError):  # not empty: there is something to keep
                self.path.rmdir()
        if self._lock is not None:
            os.close(self._lock)


def unfinished(folder: Path) -> Path:
    """Return where a run folder keeps a run that is not finished."""
    return folder / _UNFINISHED


def ledger_of_run(folder: Path) -> Path | None:
    """Return the ledger that a run was charged to, finished or not; None if it names none."""
    seal = read_seal(folder)
    if seal is not None and seal["ledger"] is not None:
        return Path(seal["ledger"]["path"])
    config = unfinished(folder) / CONFIG
    if config.exists():
        named = tomllib.loads(config.read_text(encoding="utf-8")).get("ledger")
        return None if named is None else Path(named)
    return None


def data_of_run(folder: Path) -> Path | None:
    """Return the file that a finished run was fitted on; None if the folder does not say."""
    config = folder / CONFIG
    if not config.exists():
        return None
    named = tomllib.loads(config.read_text(encoding="utf-8")).get("data")
    return None if named is None else Path(named)


def _about(config: Path, fingerprint: str) -> str:
    """Return what an unfinished run is about: its settings, wherever its files lie, and its data.

    Guarantee: a run whose settings were edited is another run. With row noise that was drawn
    already, and a second target, say, the two would have the same noise.
    """
    settings = tomllib.loads(config.read_text(encoding="utf-8"))
    kept = {name: value for name, value in settings.items() if name not in ("data", "ledger")}
    # By its name a file is read as one format or another, with other rows in each.
    kept["format"] = format_of(Path(settings["data"]), settings.get("format"))
    return json.dumps({"settings": kept, "data": fingerprint}, sort_keys=True)


def version_of(data: Path) -> tuple[int, ...] | None:
    """Return what tells a file from one that is put in its place; None if there is none."""
    try:
        found = data.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _fingerprint(data: Path) -> str:
    with data.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _locked(folder: Path) -> int | None:
    """Keep other runs out of the folder while the returned file descriptor is open.

    Otherwise the files of two runs could mix.
    """
    try:
        import fcntl
    except ImportError:  # no such locks on this platform
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A run that failed may have removed the folder between the two lines above.
        kept = os.path.samestat(os.fstat(descriptor), os.stat(folder))
    except OSError:
        kept = False
    if not kept:
        os.close(descriptor)
        raise ModelFileError(
            f"--out {folder}: another run is writing to this folder; wait for it, or choose "
            "another one"
        )
    return descriptor


def _stage_prefix(folder: Path) -> str:
    return f".{folder.name}.stage-"


def _remove_stale_stages(folder: Path) -> None:
    """Remove what killed runs into this folder left beside it; whoever calls holds its lock.

    Every model of a run lies in its stage, so it must not outlive the run.
    """
    whole = folder.absolute()
    # mkdtemp's own letters: a folder called like this one with more behind it is not ours.
    ours = re.compile(re.escape(_stage_prefix(whole)) + "[a-z0-9_]{8}")
    for part in whole.parent.iterdir():
        if ours.fullmatch(part.name) and part.is_dir() and not part.is_symlink():
            shutil.rmtree(part, ignore_errors=True)


def write_intake(
    folder: Path, intake: Intake, fill: Array, names: Iterable[Any], kind: str, method: str
) -> None:
    """Keep how the file became features, with each task's own filling for missing values.

    Guarantee: row i of the fillings is computed from task i's rows alone, is NaN where nothing was
    filled, and a party's folder holds its own row only. Where single rows are protected, task means
    are refused, so there are none.
    """
    manifest = {"intake": intake.to_json(), "tasks": tuple(names), "kind": kind, "method": method}
    models.save(folder / _INTAKE, kind="intake", manifest=manifest, arrays={"fill": fill})


def load_run(folder: Path) -> tuple[Any, Intake, Array, dict[str, Any]]:
    """Return a run folder's model, intake, fillings and the rest of the intake's manifest."""
    from tacit.estimators import load

    if not folder.exists():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(folder))
    model = load(folder)
    intake, fill, manifest = load_intake(folder)
    check_files(folder, model.privacy_)
    if tuple(manifest["tasks"]) != tuple(model.task_names_):
        raise ModelFileError(f"{folder}: model and {_INTAKE}/ belong to different runs; fit again")
    return model, intake, fill, manifest


def load_intake(folder: Path) -> tuple[Intake, Array, dict[str, Any]]:
    """Return how files become the features of the model in a folder."""
    if not (folder / _INTAKE).is_dir():
        raise ModelFileError(
            f"{folder}: holds a model but not how files become its features ({_INTAKE}/ is "
            "missing); use a folder written by tacit fit or tacit export"
        )
    kind, manifest, arrays = models.read(folder / _INTAKE)
    if kind != "intake":
        raise ModelFileError(f"{folder}: model and {_INTAKE}/ belong to different runs; fit again")
    return Intake.from_json(manifest["intake"]), np.asarray(arrays["fill"]), manifest


def table_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows of named values as CSV text."""
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()
