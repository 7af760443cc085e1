"""The command line: one file per command, assembled in ``_app``."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the ``tacit`` command."""
    from tacit.cli._app import app

    app()
