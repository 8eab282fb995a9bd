"""Readers and writers that survive an upgrade, or stop with an error and its reason."""
