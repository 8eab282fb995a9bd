"""Columns of the target get other names between a stream's look at it and its statement: it looks again, or says what it has written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.replication.restore.restore import restore
from airflow_provider_schemamig.core.spark.errors import QueryRefused
from tests.support.replicas import Replicas, make_replicas
from tests.support.rows.jobs import RowJobs
from tests.support.tables import foreign

FIRST = "CREATE TABLE trips (id BIGINT NOT NULL, v STRING);\n"


def test_a_statement_with_a_name_of_before_is_planned_again(tmp_path: Path) -> None:
    two = make_replicas(tmp_path, (FIRST, ""), (FIRST.replace("v STRING", "w STRING"), 'evolution("trips", rename={"v": "w"})'))
    two.insert("a", {"id": 1, "v": "x"})
    two.bring("a", "b")
    two.insert("a", {"id": 2, "v": "y"})
    upgraded: list[str] = []

    def rename_first(job: str, _request: Mapping[str, Any]) -> None:
        if not upgraded:
            upgraded.append(job)
            two.upgrade("b", to=2, end_hold=False)
            raise QueryRefused(condition="UNRESOLVED_COLUMN", detail="v")

    assert two.state("a", "b", jobs=RowJobs({}, before=rename_first)).error is None
    assert upgraded == ["apply"]
    assert [row["id"] for row in two.declared_rows("b")] == [1, 2]


EXCHANGED = "CREATE TABLE trips (id BIGINT NOT NULL, v STRING, u STRING{});\n"
KEYS = pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id)"], ids=["without a key", "by key"])


def about_to_bring(folder: Path, key: str) -> Replicas:
    """``a`` has a row that ``b`` does not have; the next release exchanges two names."""
    schema = EXCHANGED.format(key)
    two = make_replicas(folder, (schema, ""), (schema, 'evolution("trips", rename={"v": "u", "u": "v"})'))
    two.insert("a", {"id": 1, "v": "V", "u": "U"})
    two.bring("a", "b")
    two.insert("a", {"id": 2, "v": "V", "u": "U"})
    return two


def once_before_apply(act: Callable[[], object]) -> RowJobs:
    acted: list[str] = []

    def before(job: str, _request: Mapping[str, Any]) -> None:
        if job == "apply" and not acted:
            acted.append(job)
            act()

    return RowJobs({}, before=before)


@KEYS
@pytest.mark.parametrize("goes_back", [False, True], ids=["upgrade", "upgrade and rollback"])
def test_a_release_that_exchanges_names_turns_a_statement_of_before_away(tmp_path: Path, key: str, goes_back: bool) -> None:
    two = about_to_bring(tmp_path, key)

    def exchange() -> None:
        two.upgrade("b", to=2, end_hold=False)
        if goes_back:
            two.rollback("b")

    assert two.state("a", "b", jobs=once_before_apply(exchange)).error is None
    names = ("v", "u") if goes_back else ("u", "v")
    assert two.declared_rows("b") == [{"id": number, names[0]: "V", names[1]: "U"} for number in (1, 2)]
    two.insert("a", {"id": 3, "v": "V", "u": "U"})
    two.bring("a", "b")
    assert two.declared_rows("b")[-1] == {"id": 3, names[0]: "V", names[1]: "U"}


@KEYS
def test_a_name_that_goes_and_comes_back_for_another_column_turns_a_statement_of_before_away(tmp_path: Path, key: str) -> None:
    two = about_to_bring(tmp_path, key)

    def change() -> None:
        for statement in ("ALTER TABLE trips RENAME COLUMN v TO w", "ALTER TABLE trips ADD COLUMN v STRING"):
            commands.alter(two.env("b"), statement, jobs=two.runner)

    assert two.state("a", "b", jobs=once_before_apply(change)).error is None
    assert [(row["w"], row["v"]) for row in two.rows("b")] == [("V", None)], "it waits until the origin has the names, too"


@KEYS
def test_rows_that_were_written_while_somebody_exchanged_names_stop_the_stream_until_a_restore(tmp_path: Path, key: str) -> None:
    two = about_to_bring(tmp_path, key)

    def exchange() -> None:
        for old, new in (("v", "between"), ("u", "v"), ("between", "u")):
            foreign.rename_column(two.path("b"), old, new)

    two.upgrade("a", "b", to=2)  # from now on columns have names of their own in the files
    two.bring("a", "b")
    two.insert("a", {"id": 3, "v": "V", "u": "U"})
    assert two.state("a", "b", jobs=once_before_apply(exchange)).error == "wrote_other_columns"
    assert two.state("a", "b").error == "wrote_other_columns", "it stays"
    exchange()
    assert two.state("a", "b").error == "wrote_other_columns"
    two.insert("a", {"id": 4, "v": "V", "u": "U"})
    restore(two.env("a"), two.env("b"), CollectionName("trips"), allow_lossy=True, jobs=two.runner)
    assert two.state("a", "b").error is None
    assert two.declared_rows("b") == two.declared_rows("a")
