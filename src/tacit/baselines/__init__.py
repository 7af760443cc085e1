"""Methods to compare with: non-private multi-task learning, and published private methods."""
