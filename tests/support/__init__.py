"""What tests share: real processes, the oracle, readers of reference data."""
