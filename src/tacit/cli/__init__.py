"""The command line: one file per command, assembled in ``_app``."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the ``tacit`` command."""
    try:
        from tacit.cli._app import app

        app()
    except KeyboardInterrupt:  # before the command itself began
        sys.exit(130)
