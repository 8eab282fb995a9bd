"""What writers of an older release write at the origin, once it has columns that they do not know: the target gets what the origin has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from tests.support.online import OnlineJobs
from tests.support.replicas import Replicas, make_replicas
from tests.support.rows import tables


def stamp(two: Replicas, release: str) -> str:
    """What a handle of the release writes into its commits."""
    found = [entry for key, entry in two.lakes["a"].state.schemas.items() if key[0] == CollectionName("trips")]
    (entry,) = [entry for entry in found if entry.release == Version.parse(release)]
    about: dict[str, Any] = {"release": release, "node": None, "attempt": "x", "source": None}
    return json.dumps({"schema_hash": fingerprint(entry.declared), "origin": two.lakes["a"].state.config.env_id, **about})


@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id)"], ids=["no key", "key"])
def test_an_update_by_an_older_writer_keeps_what_it_does_not_know(tmp_path: Path, key: str) -> None:
    """As MERGE of that release does: it sets only what it has."""
    one, more = (
        f"CREATE TABLE trips (id BIGINT NOT NULL, v STRING{key});",
        f"CREATE TABLE trips (id BIGINT NOT NULL, v STRING, w STRING{key});",
    )
    two = make_replicas(tmp_path, (one, ""), (more, 'evolution("trips")'))
    two.upgrade("a", "b", to=2, end_hold=False)
    two.insert("a", {"id": 1, "v": "v1", "w": "w1"})
    two.bring("a", "b")
    base = tables.snapshot(two.path("a"))
    changed = {file: [{**row, "v": "v2"} for row in base.rows_of(file)] for file in base.files}
    tables.Statement(base, (), changed, None, stamp(two, "1.0.0")).commit()
    two.bring("a", "b")
    assert two.declared_rows("b") == two.declared_rows("a")
    assert "w1" in str(two.declared_rows("b"))


def test_an_append_by_an_older_writer_is_brought_with_the_default_that_the_origin_gave_it(tmp_path: Path) -> None:
    def declared(default: str) -> str:
        return f"CREATE TABLE trips (id BIGINT NOT NULL, v STRING{default}, PRIMARY KEY (id));"

    steps = [("", ""), (", d STRING DEFAULT 'dd'", 'evolution("trips")'), (", d STRING DEFAULT 'zz'", 'evolution("trips")')]
    two = make_replicas(tmp_path, *((declared(default), step) for default, step in steps))
    two.upgrade("a", "b", to=2, end_hold=False)
    two.insert("a", {"id": 1, "v": "v1", "d": "d1"})
    two.bring("a", "b")
    two.upgrade("a", to=3, end_hold=False)
    tables.Statement(tables.snapshot(two.path("a")), [{"id": 2, "v": "v2", "d": "zz"}], None, None, stamp(two, "1.0.0")).commit()
    two.bring("a", "b")
    assert two.declared_rows("b") == two.declared_rows("a")


@pytest.mark.some(2)
@pytest.mark.parametrize("what", ["update", "delete"])
@pytest.mark.parametrize("more", ["", ", d INT"], ids=["a type", "a type and a column"])
def test_a_change_by_an_older_writer_before_the_swap_of_a_type_is_brought(tmp_path: Path, what: str, more: str) -> None:
    """Without a key, at every commit of the upgrade of the origin."""
    first = "CREATE TABLE trips (id BIGINT NOT NULL, v INT, u INT);"
    second = f"CREATE TABLE trips (id BIGINT NOT NULL, v STRING, u INT{more});"
    for at in range(1, 30):
        two = make_replicas(tmp_path / str(at), (first, ""), (second, 'evolution("trips")'))
        two.runner = OnlineJobs()
        two.insert("a", {"id": 1, "v": 1, "u": 1}, {"id": 2, "v": 2, "u": 2})
        two.bring("a", "b")
        said, commits, seen = stamp(two, "1.0.0"), tables.newest(two.path("a")), list[bool]()

        def hook(
            moment: str, _: str, key: str, two: Replicas = two, said: str = said, last: int = commits + at, seen: list[bool] = seen
        ) -> None:
            base = tables.snapshot(two.path("a"))
            if seen or base.version < last:
                return
            seen.append({field["name"]: field["type"] for field in base.fields}["v"] == "integer" and not base.sealed)
            if seen[0]:
                rows = {file: [row for row in base.rows_of(file) if what == "update" or row["id"] != 2] for file in base.files}
                changed = {file: [row | ({"u": 77} if row["id"] == 2 else {}) for row in found] for file, found in rows.items()}
                tables.Statement(base, (), changed, None, said).commit()

        commands.upgrade(two.hooked("a", hook), two.folders[1], jobs=two.runner)
        two.state("a", "b")
        two.upgrade("b", to=2)
        two.bring("a", "b")
        assert two.declared_rows("b") == two.declared_rows("a"), at
        if not seen or not seen[0]:
            return
    raise AssertionError("it never ended")


@pytest.mark.parametrize("is_keyed", [True, False])
@pytest.mark.parametrize("goes_back", [True, False])
def test_the_last_commit_before_a_release_that_commits_nothing_is_brought_as_it_was_written(
    tmp_path: Path, is_keyed: bool, goes_back: bool
) -> None:
    """A nullable column that is dropped costs no commit before the hold is over."""
    one = f"CREATE TABLE trips (id BIGINT NOT NULL, v STRING, w STRING{', PRIMARY KEY (id)' * is_keyed});"
    two = make_replicas(tmp_path, (one, ""), (one.replace(", w STRING", ""), 'evolution("trips", drop=["w"])'))
    two.insert("a", {"id": 1, "v": "x", "w": "KEPT"}, {"id": 2, "v": "x", "w": "OLD"})
    two.bring("a", "b")
    base = tables.snapshot(two.path("a"))
    changed = {file: [{**row, "w": "NEW"} if row["id"] == 2 else row for row in base.rows_of(file)] for file in base.files}
    tables.Statement(base, [{"id": 3, "v": "x", "w": "LAST"}], changed, None, None).commit()
    two.upgrade("a", to=2)
    two.bring("a", "b")
    assert [row["w"] for row in two.declared_rows("b")] == ["KEPT", "NEW", "LAST"]
    if goes_back:
        two.rollback("a")
        two.bring("a", "b")
        assert two.declared_rows("b") == two.declared_rows("a")


@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id)"], ids=["no key", "key"])
def test_a_row_right_before_an_accept_is_brought_with_the_column_that_it_accepts(tmp_path: Path, key: str) -> None:
    one = f"CREATE TABLE trips (id BIGINT NOT NULL, v STRING{key});"
    two = make_replicas(tmp_path, (one, ""), (one.replace("v STRING", "v STRING, x STRING"), 'evolution("trips")'))
    two.insert("a", {"id": 1, "v": "a"})
    two.bring("a", "b")
    tables.add_column(two.path("a"), "x")  # by somebody
    two.env("a").writer("trips", release="1.0.0").append(pa.table({"id": pa.array([2], pa.int64()), "v": ["by a handle"]}))
    two.insert("a", {"id": 3, "v": "by Spark", "x": "kept"})
    commands.accept(two.env("a"), two.folders[0])
    two.upgrade("b", to=2)
    two.bring("a", "b")
    assert [row["x"] for row in two.declared_rows("b")] == [None, None, "kept"]
