"""Environments that replicate collections, pause on a schema mismatch and resume by themselves (seed 004; DESIGN section 8)."""
