"""What becomes of handles, without a JVM: the plans they make, and rows put in by somebody else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_provider_schemamig.core.access.errors import ReaderFenced
from airflow_provider_schemamig.core.access.read_mapping import Fit, Unfit, bare
from airflow_provider_schemamig.core.access.resolved_table import look
from airflow_provider_schemamig.core.access.write_mapping import fit_writer
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.schema.model import walk
from tests.support.lake import Lake
from tests.support.upgrades import two_releases
from tests.unit.access.cases import Case

SERVED, NULL, FENCED = "served", "NULL", "fenced"


def lake_of(folder: Path, case: Case) -> Lake:
    return two_releases(folder, f"CREATE TABLE t ({case.old});", f"CREATE TABLE t ({case.new});", case.step)


def reads(lake: Lake, release: str, columns: Sequence[str] | None = None) -> str:
    """What becomes of a reader of ``release`` now."""
    try:
        fit = lake.env.reader("t", release).pin(columns).fit
    except ReaderFenced:
        return FENCED
    assert fit is not None
    return NULL if _shows_null(fit) else SERVED


def _shows_null(fit: Fit) -> bool:
    """Whether a field is shown that the table does not have."""
    return len([path for path, _ in walk(fit.shown.fields)]) > len(
        [path for path, f in walk(fit.source.fields) if not f.name.endswith(" ")]
    )


def writes(lake: Lake, release: str) -> str:
    """What becomes of a writer of ``release`` that gives all its columns."""
    seen = look(lake.env, LedgerReader(lake.env), CollectionName("t"), Version.parse(release))
    assert seen.place is not None
    shape = seen.declared.shape
    try:
        fit_writer(bare(shape.fields), shape, seen.place.live, is_later=seen.declared.is_later)
    except Unfit:
        return FENCED
    return SERVED


def rows(lake: Lake, release: str | None = None, columns: list[str] | None = None, collection: str = "t") -> list[dict[str, Any]]:
    return sorted(lake.env.reader(collection, release).arrow(columns).to_pylist(), key=repr)


def batch(**columns: list[Any]) -> pa.Table:
    types = {"id": pa.int64(), "x": pa.int32(), "y": pa.int32()}
    return pa.table({name: pa.array(values, types.get(name)) for name, values in columns.items()})
