"""Environments that replicate collections, pause on a schema mismatch and resume by themselves."""
