"""Privacy-preserving transfer learning for knowledge sharing: run by `tacit reproduce`."""

from .figures import draw, value

__all__ = ["draw", "value"]
