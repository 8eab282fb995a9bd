"""Readers and writers that survive an upgrade, or stop with an error that says why (DESIGN section 7, seed 003)."""
