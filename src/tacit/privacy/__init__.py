"""Units, bounds, mechanisms, accounting, billboard, ledger, statement."""
