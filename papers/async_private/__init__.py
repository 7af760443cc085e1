"""Privacy-preserving distributed multi-task learning: its figures, run by `tacit reproduce`."""

from .figures import chosen, draw, value

__all__ = ["chosen", "draw", "value"]
