"""Exhaustive upgrade tests of a release folder: every path that users can take, run for real in throw-away environments.

``schemamig test``, ``schemamig fixtures`` and the pytest plugin are faces of this package (docs/testing-releases.md).
"""
