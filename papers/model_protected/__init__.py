"""Model-protected multi-task learning: its figures, run by `tacit reproduce`."""

from .figures import draw, value

__all__ = ["draw", "value"]
