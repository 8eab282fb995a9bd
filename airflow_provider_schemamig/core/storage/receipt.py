"""Proof of a write, good enough to notice later that somebody replaced it."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_schemamig.core.storage.location import Location


@dataclass(frozen=True, slots=True)
class WriteReceipt:
    """``key`` below ``location`` was ours at ``written_at`` (monotonic seconds); on local disks as ``inode``, elsewhere None.

    ``tag``: the one that ``Store.listing`` shows of it; None where the store's answer was lost.
    """

    location: Location
    key: str
    written_at: float
    inode: int | None = None
    tag: str | None = None
