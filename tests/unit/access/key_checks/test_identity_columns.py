"""What a handle writes to an adopted table of which Delta numbers the rows; the declaration says nothing of that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.access.key_checks.guard import checks_of
from airflow_provider_schemamig.core.access.read_mapping import Unfit, bare
from airflow_provider_schemamig.core.access.resolved_table import look
from airflow_provider_schemamig.core.access.write_mapping import Mode, fit_writer
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName
from tests.support.rows.fake_jobs import FakeJobs
from tests.support.tables.adopting import Site, field
from tests.unit.upgrade.adopt.test_adopt import begin
from tests.unit.upgrade.adopt.test_adopted_protocols import ALWAYS, BY_DEFAULT


def adopted(folder: Path, kind: dict[str, Any], *, nullable: bool, key: str = "", renamed: bool = False) -> Site:
    site = Site(folder)
    columns = [field("n", "long", nullable=nullable, **kind), field("s"), field("u")]
    site.adopt(t=site.by_hand("t", columns, {"minReaderVersion": 1, "minWriterVersion": 6}))
    if key:
        begin(site, "s STRING", f"s STRING, {key}", 'evolution("t")')
        site.upgrade(jobs=FakeJobs)
    if renamed:
        begin(site, "n BIGINT", "number BIGINT", 'evolution("t", rename={"n": "number"})')
        site.upgrade()
    return site


def written(site: Site, columns: Sequence[str], mode: Mode, *on: str) -> list[str]:
    """Return the rules of what is asked of such a write."""
    seen = look(site.env, LedgerReader(site.env), CollectionName("t"), None)
    assert seen.place is not None
    given = bare(tuple(found for found in seen.declared.shape.fields if found.name in columns))
    fit = fit_writer(given, seen.declared.shape, seen.place.live, is_later=False)
    return [check.rule for check in checks_of(site.env, seen.place, fit, mode, on) if hasattr(check, "rule")]


@pytest.mark.parametrize("renamed", [False, True])
@pytest.mark.parametrize(("kind", "is_refused"), [(ALWAYS, False), (BY_DEFAULT, False), ({}, True)], ids=["always", "by default", "plain"])
def test_rows_without_the_column_are_numbered_by_the_table(tmp_path: Path, kind: dict[str, Any], is_refused: bool, renamed: bool) -> None:
    site = adopted(tmp_path, kind, nullable=False, renamed=renamed)
    for mode, on in ((Mode.APPEND, ()), (Mode.OVERWRITE, ()), (Mode.MERGE, ("s",))):
        if is_refused:
            with pytest.raises(Unfit, match="is NOT NULL, and not among the columns of the rows"):
                written(site, ["s", "u"], mode, *on)
        else:
            assert written(site, ["s", "u"], mode, *on) == []


@pytest.mark.parametrize("key", ["CONSTRAINT k PRIMARY KEY (n)", "CONSTRAINT k UNIQUE (n)"])
@pytest.mark.parametrize(("kind", "is_refused"), [(ALWAYS, False), (BY_DEFAULT, True)], ids=["always", "by default"])
def test_a_key_is_not_left_to_a_counter_that_may_repeat_a_number(tmp_path: Path, kind: dict[str, Any], is_refused: bool, key: str) -> None:
    site = adopted(tmp_path, kind, nullable=False, key=key)
    for mode, on in ((Mode.APPEND, ()), (Mode.MERGE, ("s",))):
        if is_refused:
            with pytest.raises(Unfit, match="is left to Delta's counter, whose numbers cannot be compared for"):
                written(site, ["s", "u"], mode, *on)
        else:
            assert written(site, ["s", "u"], mode, *on) == []
    assert written(site, ["n", "s", "u"], Mode.APPEND) != []


@pytest.mark.parametrize("kind", [ALWAYS, BY_DEFAULT], ids=["always", "by default"])
def test_numbers_of_a_counter_refer_to_nothing_that_was_looked_for(tmp_path: Path, kind: dict[str, Any]) -> None:
    site = adopted(tmp_path, kind, nullable=True, key="FOREIGN KEY (n) REFERENCES t (n)")
    with pytest.raises(Unfit, match="is left to Delta's counter"):
        written(site, ["s", "u"], Mode.APPEND)
