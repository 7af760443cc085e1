"""tacit: private multi-task learning."""

from tacit._version import __version__

__all__ = ["__version__"]
