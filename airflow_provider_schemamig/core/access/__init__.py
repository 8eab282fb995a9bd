"""Readers and writers that survive an upgrade, or stop with an error that says why."""
