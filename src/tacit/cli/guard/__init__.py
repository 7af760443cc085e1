"""Which ledger guards which data: fingerprints, the register of ledgers, and the choice of one."""
