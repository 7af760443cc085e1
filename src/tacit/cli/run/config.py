"""``config.toml``: the settings of a fit, to be run again with ``tacit fit --config``."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from tacit._version import __version__
from tacit.errors import InvalidInput

__all__ = ["read_config", "read_unfinished", "to_toml"]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)  # inf is TOML's word too
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(part) for part in value) + "]"
    # JSON's escapes are TOML's, except that TOML wants DEL escaped as well.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def to_toml(settings: Mapping[str, Any]) -> str:
    """Return settings as TOML; those that were left out stay out."""
    lines = [f"# tacit {__version__}. Run it again: tacit fit --config config.toml --out another"]
    for name, value in settings.items():
        if value is not None and value != [] and value != ():
            lines.append(f"{name} = {_value(value)}")
    return "\n".join(lines) + "\n"


def read_config(ctx: typer.Context, path: Path | None) -> Path | None:
    """Take the settings of a file as defaults; what stands on the command line wins."""
    if path is None or ctx.resilient_parsing:
        return path
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeError) as error:
        raise InvalidInput(f"--config {path}: is not TOML ({error}); correct the file") from None
    known = {str(parameter.name) for parameter in ctx.command.params} - {"config", "resume"}
    for name in settings:
        if name not in known:
            raise InvalidInput(
                f"--config {path}: unknown setting {name!r}; use the names of tacit fit's options"
            )
    if isinstance(settings.get("missing"), str):  # of a version that knew one rule only
        settings["missing"] = [settings["missing"]]
    ctx.default_map = {**(ctx.default_map or {}), **settings}
    return path


def read_unfinished(ctx: typer.Context, folder: Path | None) -> Path | None:
    """Take the settings of an interrupted run, and its folder as the one to write."""
    if folder is None or ctx.resilient_parsing:
        return folder
    from tacit.cli.run.folder import CONFIG, unfinished

    config = unfinished(folder) / CONFIG
    if not config.exists():
        raise InvalidInput(
            f"--resume {folder}: holds no run that was interrupted; start it with tacit fit DATA "
            "--out and a folder"
        )
    read_config(ctx, config)
    ctx.default_map = {**(ctx.default_map or {}), "out": str(folder)}
    return folder
