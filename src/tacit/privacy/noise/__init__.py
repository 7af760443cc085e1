"""Noise: entropy, exact reals, rounding to a public grid, perturbation."""
