"""Runs: building, fitting, evaluating, showing and keeping them."""
