"""The three ways rows are written by a handle."""

from __future__ import annotations

from enum import StrEnum


class Mode(StrEnum):
    APPEND = "append"
    MERGE = "merge"
    OVERWRITE = "overwrite"
