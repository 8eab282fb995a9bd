"""Adopted tables of old protocols and with identity columns: upgraded with all that their numbers mean, and what cannot be is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from tests.support.rows.fake_jobs import FakeJobs
from tests.support.tables import foreign
from tests.support.tables.adopting import Site, field
from tests.unit.upgrade.adopt.test_adopt import begin

ALWAYS = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}
BY_DEFAULT = ALWAYS | {"delta.identity.allowExplicitInsert": True}


@pytest.mark.parametrize("step", ["a name", "two names"])
@pytest.mark.parametrize("reader, writer", [(1, 2), (1, 4), (1, 5), (1, 6), (2, 4), (2, 5), (2, 6)])
def test_adopted_protocols_are_raised_for_renamed_columns(tmp_path: Path, reader: int, writer: int, step: str) -> None:
    """(1,6) is a table with identity columns, as Spark makes it: no reader of it looks for column mapping."""
    site = Site(tmp_path)
    table = site.by_hand("t", [field("id", "long"), field("s"), field("u")], {"minReaderVersion": reader, "minWriterVersion": writer})
    foreign.write(table, [{"id": 1, "s": "x", "u": "y"}])
    site.adopt(t=table)
    if step == "a name":
        begin(site, "s STRING", "z STRING", 'evolution("t", rename={"s": "z"})')
    else:
        begin(site, "s STRING", "s STRING", 'evolution("t", rename={"s": "u", "u": "s"})')
    site.upgrade()
    site.check("1.1.0")
    assert foreign.protocol(table)["minReaderVersion"] == (2 if (reader, writer) in ((2, 5), (2, 6)) else 3)
    after = {"id": 1, "z": "x", "u": "y"} if step == "a name" else {"id": 1, "u": "x", "s": "y"}
    assert site.env.reader("t", "1.1.0").arrow().to_pylist() == [after]
    assert site.env.reader("t", "1.0.0").arrow().to_pylist() == [{"id": 1, "s": "x", "u": "y"}]


@pytest.mark.parametrize("kind, is_refused", [(ALWAYS, True), (BY_DEFAULT, False), ({}, False)], ids=["always", "by default", "plain"])
def test_a_rewrite_of_identity_columns_names_no_way_back_for_rows(tmp_path: Path, kind: dict[str, Any], is_refused: bool) -> None:
    site = Site(tmp_path)
    site.adopt(t=site.by_hand("t", [field("n", "long", **kind), field("s")], {"minReaderVersion": 1, "minWriterVersion": 6}))
    begin(site, "s STRING", "z STRING", "rewrite('t', up='SELECT n, s AS z FROM {t}', down='SELECT n, z AS s FROM {t}')")
    refusals = commands.plan(site.env, site.release, jobs=FakeJobs).refusals
    assert [refusal.code for refusal in refusals] == (["no_rows_back"] if is_refused else [])
