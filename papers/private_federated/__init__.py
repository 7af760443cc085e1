"""Private multi-task learning: formulation and applications to federated learning (Hu et al.)."""

from .figures import draw, value

__all__ = ["draw", "value"]
