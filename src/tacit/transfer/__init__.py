"""Private transfer: learning at source and target, and the package files between them."""
