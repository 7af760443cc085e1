"""``tacit verify`` and ``tacit sign``: a run folder is what it was when the run ended."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from tacit.cli._options import RunPath
from tacit.cli._output import Json, Quiet, begin
from tacit.errors import InvalidInput, LedgerError, ModelFileError, PrivacyLeak

__all__ = ["sign", "verify"]


def verify(
    run: RunPath,
    ledger: Annotated[
        Path | None, typer.Option(help="The run's ledger, if it is not where it was.")
    ] = None,
    head: Annotated[
        str | None, typer.Option(help="A head of the ledger noted earlier, from: tacit ledger.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="Public key of whoever must have signed the folder.")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Check that statement, releases, ledger and model belong together and were not edited.

    Exit code 4 names the first file that does not fit. A party's own folder is checked without the
    ledger, which stands with the coordinator.

    Example: tacit verify run/
    """
    output = begin(quiet=quiet, as_json=json)
    from tacit.cli.run.folder import load_run
    from tacit.cli.run.seal import SEAL, read_seal
    from tacit.cli.run.signing import check_signature

    model = load_run(run)[0]
    seal = read_seal(run)
    if seal is None:
        raise ModelFileError(
            f"{run}: has no {SEAL}; it was removed, or an earlier version wrote the folder: check "
            "its ledger with tacit ledger verify, or fit again"
        )
    found = [("files", f"{len(seal['files'])} files are as they were sealed")]
    found.append(("statement", _stated(run, model)))
    found.append(("ledger", _charged(run, model, seal, ledger, head)))
    if key is not None:
        check_signature(run, key)
        found.append(("signature", f"the holder of {key} signed the seal"))
    table = Table("checked", "found")
    for row in found:
        table.add_row(*row)
    output.show(table, f"{run}: all in order")
    output.result({"run": str(run), "checks": dict(found)})


def _stated(run: Path, model: Any) -> str:
    """Compare the statement with what the releases cost."""
    from tacit.privacy.accounting import compose

    statement, billboard = model.privacy_, model.billboard_
    postings = [] if billboard is None else [p for p in billboard if p.unit == statement.unit]
    if len(postings) != statement.n_releases:
        raise PrivacyLeak(
            f"{run}: the statement counts {statement.n_releases} releases, billboard.npz has "
            f"{len(postings)}; a file was removed or replaced: restore it from a copy"
        )
    if not postings or not statement.private:
        return "nothing was released" if not postings else "the run claims no privacy"
    cost = compose(
        [posting.event for posting in postings],
        delta=statement.delta,
        adjacency=statement.adjacency,
    )
    if not math.isclose(cost.epsilon, statement.epsilon, rel_tol=1e-6, abs_tol=1e-9):
        raise PrivacyLeak(
            f"{run}: the statement says ε = {statement.epsilon:.6g}, its releases cost "
            f"ε = {cost.epsilon:.6g}; trust neither"
        )
    return f"its ε = {statement.epsilon:.4g} is what its releases ({len(postings)}) cost"


def _charged(
    run: Path, model: Any, seal: dict[str, Any], given: Path | None, head: str | None
) -> str:
    """Compare the folder with its run in the ledger: the seal, and every release's hash."""
    from tacit.cli.guard.register import noted_head
    from tacit.cli.run.seal import seal_hash
    from tacit.privacy.ledger import Ledger

    place = seal["ledger"]
    if place is None:
        if given is not None:
            raise InvalidInput(f"--ledger: {run} is in no ledger; leave it out")
        released = model.billboard_ is not None and len(model.billboard_) > 0
        return "stands with the coordinator" if released else "nothing was charged"
    path = Path(place["path"]) if given is None else given
    if not path.exists():
        raise LedgerError(f"{path}: the ledger is not there any more; say where with --ledger")
    with Ledger(path) as opened:
        n_entries = opened.verify(head)
        noted = noted_head(opened.identity)
        if opened.identity != place["identity"] or not (noted is None or opened.holds(noted)):
            raise LedgerError(f"{path}: is another ledger, or an older copy of the run's")
        records = {record.number: record for record in opened.runs()}
        record = records.get(place["run"])
        marks = opened.marks(place["run"]) if record is not None else set()
    if record is None or record.seal is None or record.seal.get("files") != seal_hash(seal):
        raise LedgerError(
            f"{run}: its seal is not the one that {path} holds for run {place['run']}; files and "
            "seal were changed after the run: restore them from a copy"
        )
    if {posting.hash for posting in model.billboard_} != marks:
        raise LedgerError(f"{run}: its releases are not those charged as run {place['run']}")
    return f"run {place['run']} of {path}, {n_entries} entries in order; its seal and releases fit"


def sign(
    run: RunPath,
    key: Annotated[Path, typer.Option(help="Private Ed25519 key in PEM.")],
    make_key: Annotated[
        bool, typer.Option("--make-key", help="Make the key, and KEY.pub to hand out, first.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Sign a run folder, so that tacit verify --key shows who wrote it.

    Example: tacit sign run/ --key officer.pem --make-key
    """
    output = begin(quiet=quiet)
    from tacit.cli.run import signing
    from tacit.cli.run.folder import load_run
    from tacit.cli.run.seal import SIGNATURE, read_seal

    load_run(run)
    if read_seal(run) is None:
        raise ModelFileError(f"{run}: has no seal to sign; fit again with this version")
    if make_key:
        output.show(f"public key: {signing.make_key(key)}")
    elif not key.exists():
        raise InvalidInput(f"--key {key}: no such key; say --make-key to make one")
    signing.sign(run, key)
    output.show(f"signed: {run / SIGNATURE}")
