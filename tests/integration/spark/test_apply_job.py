"""The apply job by key, on changes that come to nothing, and on what cannot be done."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_schemamig.core.spark import errors
from airflow_provider_schemamig.core.spark.rows_digest import NO_ROWS
from spark_jobs import apply, keyed_change
from tests.support.rows.rewrites import OnSession, Rewrite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def rewrite(spark: SparkSession, tmp_path: Path) -> Rewrite:
    return Rewrite(spark, tmp_path / "50 ö")


def copied(rewrite: Rewrite, without: str) -> int:
    """Make a source with a change feed, and "b" with all of its rows but those; the source's version."""
    rewrite.make_source("TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    rewrite.sql(f"DELETE FROM {{s}} WHERE {without}")
    rewrite.query = "SELECT CAST(id AS BIGINT) AS id, v, p, tags, o, m, d FROM s"
    rewrite.make_target("b")
    start = rewrite.version()
    rewrite.fill("b", {"uri": rewrite.uri("the source"), "version": start}, "copy")
    return start


@pytest.mark.soak
def test_by_key_rows_are_updated_inserted_and_deleted_whatever_stood_there(rewrite: Rewrite) -> None:
    """As a rollback does: the changes of the new shape go back into the old table, which kept more than ``down`` can give back."""
    rewrite.make_source("TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    rewrite.sql("DELETE FROM {s} WHERE id IS NULL OR id = 1")
    rewrite.query = "SELECT CAST(id AS BIGINT) AS id, concat(v, '!') AS v, p, tags, o, m, d FROM s"
    rewrite.make_target("old")
    rewrite.fill("old", {"uri": rewrite.uri("the source"), "version": None}, "copy")
    rewrite.spark.sql(f"UPDATE delta.`{rewrite.uri('old')}` SET v = 'richer'")
    lo = rewrite.version()
    rewrite.sql("UPDATE {s} SET v = 'new' WHERE id = 2")
    rewrite.sql("UPDATE {s} SET v = 'newer' WHERE id = 2")
    rewrite.sql("UPDATE {s} SET id = 30 WHERE id = 3")
    rewrite.sql("DELETE FROM {s} WHERE id = 4")
    rewrite.sql("UPDATE {s} SET id = NULL WHERE id = 13")
    hi = rewrite.version()

    result = rewrite.apply("old", rewrite.changes("cdf", lo, hi), lo, hi, match=["id"])
    assert (result["inserted"], result["deleted"], result["skipped"]) == (3, 4, False)
    found = rewrite.spark.sql(f"SELECT id, v FROM delta.`{rewrite.uri('old')}`").collect()
    assert {tuple(row) for row in found} == {(2, "newer!"), (30, "it's!"), (None, "none!")}
    # Under another txn version it is done again, and changes nothing.
    rewrite.apply("old", rewrite.changes("files", lo, hi), lo, hi, match=["id"], txn_app_id="another")
    assert rewrite.spark.sql(f"SELECT id, v FROM delta.`{rewrite.uri('old')}`").collect() == found

    rewrite.sql("INSERT INTO {s} VALUES (2, 'second', NULL, NULL, NULL, NULL, NULL), (2, 'third', NULL, NULL, NULL, NULL, NULL)")
    with pytest.raises(errors.DuplicateKeys, match="id"):
        rewrite.apply("old", rewrite.changes("files", hi, hi + 1), hi, hi + 1, match=["id"])


@pytest.mark.parametrize("kind", ["cdf", "files"])
@pytest.mark.soak
def test_by_key_new_rows_beside_changed_ones_take_one_statement(rewrite: Rewrite, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delta evaluates conditions of a MERGE's clauses for rows that match nothing, too."""
    monkeypatch.setattr(apply, "_check_source", lambda *_: pytest.fail("nothing of a key that came was there"))
    start = copied(rewrite, without="id IS NULL OR id IN (1, 4, 13)")
    rewrite.sql("UPDATE {s} SET v = 'changed' WHERE id = 3")
    rewrite.sql("INSERT INTO {s} VALUES (8, 'came', NULL, NULL, NULL, NULL, NULL)")
    end = rewrite.version()
    assert rewrite.apply("b", rewrite.changes(kind, start, end), start, end, match=["id"])["inserted"] == 2
    assert rewrite.rows("b") == rewrite.expected(end)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["cdf", "files"])
def test_by_key_two_rows_of_one_key_are_refused_also_from_two_batches(rewrite: Rewrite, kind: str) -> None:
    """Beside rows that change. What others wrote to the target makes way."""
    start = copied(rewrite, without="id IS NULL OR id IN (1, 4, 13)")
    before = rewrite.rows("b")
    row = "SELECT {}, '{}', NULL, NULL, NULL, NULL, NULL"
    rewrite.sql(f"INSERT INTO {{s}} {row.format(2, 'second')}")
    lo = rewrite.version()
    with pytest.raises(errors.DuplicateKeys, match="2 rows"):
        rewrite.apply("b", rewrite.changes(kind, start, lo), start, lo, match=["id"])
    rewrite.sql("UPDATE {s} SET v = 'changed' WHERE id = 3")
    hi = rewrite.version()
    with pytest.raises(errors.DuplicateKeys, match="2 rows"):
        rewrite.apply("b", rewrite.changes(kind, start, hi), start, hi, match=["id"])
    assert rewrite.rows("b") == before

    rewrite.sql("DELETE FROM {s} WHERE v = 'second'")
    rewrite.sql(f"INSERT INTO {{s}} {row.format(8, 'ours')}")
    rewrite.spark.sql(f"INSERT INTO delta.`{rewrite.uri('b')}` {row.format(8, 'theirs')}")
    hi = rewrite.version()
    result = rewrite.apply("b", rewrite.changes(kind, start, hi), start, hi, match=["id"])
    assert (result["inserted"], result["deleted"], result["skipped"]) == (2, 1, False)
    assert rewrite.rows("b") == rewrite.expected(hi)


@pytest.mark.soak
def test_apply_job_what_only_came_is_inserted_and_what_came_and_went_is_no_commit(rewrite: Rewrite) -> None:
    rewrite.make_source("")
    rewrite.make_target("b")
    lo = rewrite.version()
    rewrite.copy("b", lo, max_files=10)
    rewrite.sql("INSERT INTO {s} VALUES (7, 'twice', NULL, NULL, NULL, NULL, NULL), (7, 'twice', NULL, NULL, NULL, NULL, NULL)")
    result = rewrite.apply("b", rewrite.changes("files", lo, lo + 1), lo, lo + 1)
    assert (result["inserted"], result["deleted"]) == (4, 0)
    assert rewrite.rows("b") == rewrite.expected(lo + 1)
    assert rewrite.operation("b") == "WRITE"

    rewrite.sql("INSERT INTO {s} VALUES (8, 'x', NULL, NULL, NULL, NULL, NULL)")
    rewrite.sql("DELETE FROM {s} WHERE id = 8")
    rewrite.sql("UPDATE {s} SET id = 13 WHERE id = 13")
    hi, before = rewrite.version(), rewrite.version("b")
    result = rewrite.apply("b", rewrite.changes("files", lo + 1, hi), lo + 1, hi)
    assert result | {"seconds": 0} == {
        "table_version": None,
        "inserted": 0,
        "deleted": 0,
        "delta": NO_ROWS.to_json(),
        "skipped": False,
        "seconds": 0,
    }
    assert rewrite.version("b") == before


@pytest.mark.soak
def test_apply_job_what_cannot_be_done_is_a_typed_error_and_writes_nothing(rewrite: Rewrite) -> None:
    rewrite.make_source("TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    rewrite.make_target("b")
    lo = rewrite.version()
    rewrite.copy("b", lo, max_files=10)
    rewrite.sql("UPDATE {s} SET v = 'x' WHERE id = 3")
    rewrite.sql("UPDATE {s} SET v = 'y' WHERE id = 3")
    feed, files = rewrite.changes("cdf", lo, lo + 1), rewrite.changes("files", lo, lo + 1)
    before = rewrite.rows("b")

    rewrite.sql("ALTER TABLE {s} UNSET TBLPROPERTIES ('delta.enableChangeDataFeed')")
    hi = rewrite.version()
    with pytest.raises(errors.ChangeDataMissing):
        rewrite.apply("b", rewrite.changes("cdf", lo, hi), lo, hi)
    with pytest.raises(errors.TargetDiverged, match="1 row"):
        rewrite.apply("b", rewrite.changes("files", lo + 1, hi), lo + 1, hi)
    assert rewrite.rows("b") == before

    # A twin that went another way from the same version is found by Delta, not taken for a divergence.
    rewrite.apply("b", files, lo, lo + 1)
    with pytest.raises(errors.FillSuperseded):
        rewrite.apply("b", files, lo, lo + 2)
    with pytest.raises(errors.TargetDiverged):
        rewrite.apply("b", files, lo, lo + 1, txn_app_id="another", user_metadata="{}")

    rewrite.vacuum()
    for changes in (feed, files):
        with pytest.raises(errors.SourceVacuumed, match="preflight"):
            rewrite.apply("b", changes, lo, lo + 1, txn_app_id="another")


@pytest.mark.soak
def test_nothing_of_the_job_stays_on_the_session(rewrite: Rewrite) -> None:
    session = rewrite.spark.newSession()
    rewrite.runner = OnSession(session)
    rewrite.make_source("")
    rewrite.make_target("b")
    assert rewrite.apply("b", rewrite.changes("files", 0, 2), 0, 2)["inserted"] == 9
    assert [name for name in session.conf.getAll if "txn" in name or "userMetadata" in name] == []
    assert session.sql("SHOW VIEWS").collect() == []
    assert rewrite.cached() == 0


#: What happens between two batches, and whether each key's row came and went at most once in it.
BATCHES = (
    (("UPDATE {s} SET v = 'x', m = map('a', 1) WHERE id < 3", "INSERT INTO {s} SELECT 7, 'seven', NULL, NULL, NULL, NULL, NULL"), True),
    (("DELETE FROM {s} WHERE id = 1", "UPDATE {s} SET id = 30 WHERE id = 3"), True),
    (("UPDATE {s} SET v = 'twice' WHERE id = 2", "UPDATE {s} SET v = 'three times' WHERE id = 2", "DELETE FROM {s} WHERE id = 4"), False),
    (("UPDATE {s} SET v = v, m = map('a', 1) WHERE id = 2", "UPDATE {s} SET v = 'y' WHERE id = 7"), True),
    (("INSERT INTO {s} SELECT 9, 'x', NULL, NULL, NULL, NULL, NULL", "DELETE FROM {s} WHERE id = 9"), True),
    (("UPDATE {s} SET v = 'z' WHERE id = 7", "DELETE FROM {s} WHERE id = 7"), False),
)


@pytest.mark.soak
def test_by_key_without_grouping_whole_rows_is_the_same(rewrite: Rewrite, monkeypatch: pytest.MonkeyPatch) -> None:
    """One target follows by the change data feed, another one by files, which knows of no shorter way."""
    taken: list[bool] = []

    def watched(*given: Any) -> Any:
        found = keyed_change.keyed_change_of(*given)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(apply, "keyed_change_of", watched)
    rewrite.make_source("TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    rewrite.sql("DELETE FROM {s} WHERE id IS NULL OR (id = 1 AND size(m) > 0)")
    rewrite.sql("INSERT INTO {s} SELECT 1, 'one', NULL, NULL, NULL, map('b', 2, 'a', 1), NULL")
    rewrite.query = "SELECT CAST(id AS BIGINT) AS id, v, p, tags, o, m, d FROM s"
    for name in ("by_key", "by_rows"):
        rewrite.make_target(name)
        rewrite.fill(name, {"uri": rewrite.uri("the source"), "version": None}, "copy")
    for number, (statements, shorter) in enumerate(BATCHES):
        lo = rewrite.version()
        for statement in statements:
            rewrite.sql(statement)
        hi = rewrite.version()
        one = rewrite.apply("by_key", rewrite.changes("cdf", lo, hi), lo, hi, match=["id"])
        other = rewrite.apply("by_rows", rewrite.changes("files", lo, hi), lo, hi, match=["id"])
        assert taken == [shorter, False], number
        taken.clear()
        assert [one[name] for name in ("inserted", "deleted", "delta")] == [other[name] for name in ("inserted", "deleted", "delta")], (
            number
        )
        assert rewrite.rows("by_key") == rewrite.rows("by_rows") == rewrite.expected(hi), number
    assert rewrite.cached() == 0


#: What the job, or Spark, might call something of its own.
NAMES = ("h", "g", "r", "n", "s", "t", "came", "_change_type_", "low0", "x")


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["cdf", "files"])
def test_columns_may_have_any_name(rewrite: Rewrite, kind: str) -> None:
    columns = ", ".join(f"{name} BIGINT" for name in NAMES)
    for name in ("the source", "b"):
        rewrite.spark.sql(
            f"CREATE TABLE delta.`{rewrite.uri(name)}` ({columns}) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
        )
    values = ", ".join(["id"] * len(NAMES))
    rewrite.sql(f"INSERT INTO {{s}} SELECT {values} FROM range(3)")
    rewrite.sql("UPDATE {s} SET x = 7 WHERE h = 1")
    about = {"projection": ", ".join(NAMES), "query": "SELECT * FROM s", "columns": list(NAMES), "match": ["h", "came"]}
    rewrite.apply("b", rewrite.changes(kind, 0, 1), 0, 1, **about)
    result = rewrite.apply("b", rewrite.changes(kind, 1, 2), 1, 2, **about)
    assert (result["inserted"], result["deleted"]) == (1, 1)
    assert rewrite.rows("b") == rewrite.rows("the source")


@pytest.mark.parametrize("match", [["d"], []], ids=["keyed", "keyless"])
@pytest.mark.soak
def test_dates_that_python_does_not_have_are_carried(spark: SparkSession, tmp_path: Path, match: list[str]) -> None:
    """Spark has years beyond 9999 and before 1; the bounds of what changed are looked at in Python."""
    origin, target = str(tmp_path / "origin"), str(tmp_path / "target")
    for place in (origin, target):
        spark.sql(f"CREATE TABLE delta.`{place}` (n INT, d DATE) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
        spark.sql(f"INSERT INTO delta.`{place}` VALUES (1, DATE'+12000-01-01'), (2, DATE'2020-01-01'), (3, DATE'-0044-03-15')")
    spark.sql(f"UPDATE delta.`{origin}` SET n = n + 10")
    request: dict[str, Any] = {
        "target_uri": target,
        "storage_options": {},
        "query": "SELECT * FROM src",
        "source_view": "src",
        "projection": "n, d",
        "inputs": {},
        "columns": ["n", "d"],
        "txn_app_id": "x",
        "txn_version": 1,
        "user_metadata": "{}",
        "changes": {"kind": "cdf", "uri": origin, "from": 2, "to": 2},
        "match": match,
    }
    apply.run(spark, request)
    found, wanted = (spark.sql(f"SELECT n, CAST(d AS STRING) FROM delta.`{place}` ORDER BY n").collect() for place in (target, origin))
    assert [tuple(row) for row in found] == [tuple(row) for row in wanted]
    assert [row[0] for row in found] == [11, 12, 13]


@pytest.mark.parametrize(
    ("match", "kind"),
    [(["id"], "cdf"), *(pytest.param(*case, marks=pytest.mark.soak) for case in ((["id"], "files"), ([], "cdf"), ([], "files")))],
    ids=["by key, cdf", "by key, files", "by rows, cdf", "by rows, files"],
)
@pytest.mark.soak
def test_apply_job_a_backfill_brings_one_column_and_only_where_the_target_has_what_was_there(
    rewrite: Rewrite, match: list[str], kind: str
) -> None:
    start = copied(rewrite, without="id IS NULL")
    target = f"delta.`{rewrite.uri('b')}`"
    rewrite.spark.sql(f"UPDATE {target} SET d = DATE'2020-02-02' WHERE id = 1")  # its owner's, or filled by the target itself
    rewrite.spark.sql(f"UPDATE {target} SET v = 'owned' WHERE id = 4")
    rewrite.spark.sql(f"DELETE FROM {target} WHERE id = 13")
    rewrite.spark.sql(f"INSERT INTO {target} VALUES (50, 'mine', NULL, NULL, NULL, NULL, NULL)")
    expected = rewrite.rows("b")
    rewrite.sql("UPDATE {s} SET d = DATE'1999-09-09' WHERE d IS NULL OR id = 3")
    end = rewrite.version()
    found = rewrite.apply("b", rewrite.changes(kind, start, end), start, end, match=match, filled="d")
    assert found["table_version"] == rewrite.version("b")

    rows = {row["id"]: row for row in rewrite.spark.sql(f"SELECT id, v, CAST(d AS STRING) AS d FROM {target} WHERE id <> 1").collect()}
    assert {number: tuple(row)[1:] for number, row in rows.items()} == {
        2: ("twice", "2013-01-01"),
        3: ("it's", "1999-09-09"),  # the target had what the source had
        4: ("owned", "1999-09-09" if match else None),  # without a key it is another row
        50: ("mine", None),
    }
    assert rewrite.spark.sql(f"SELECT DISTINCT CAST(d AS STRING) FROM {target} WHERE id = 1").collect() == [("2020-02-02",)]
    assert sum(rewrite.rows("b").values()) == sum(expected.values())


@pytest.mark.soak
@pytest.mark.parametrize("match", [["id"], []], ids=["by key", "by rows"])
def test_apply_job_a_null_makes_way_for_what_is_there_and_for_a_default(rewrite: Rewrite, match: list[str]) -> None:
    start = copied(rewrite, without="id IS NULL OR id IN (1, 4, 13)")
    rewrite.sql("UPDATE {s} SET v = NULL, p = 'changed' WHERE id = 3")
    rewrite.sql("INSERT INTO {s} VALUES (8, NULL, NULL, NULL, NULL, NULL, NULL)")
    end = rewrite.version()
    written = {"updates": {"v": "coalesce(s.v, t.v)"}, "inserts": {"v": "coalesce(s.v, CAST(('none') AS STRING))"}}
    rewrite.apply("b", rewrite.changes("cdf", start, end), start, end, match=match, **written)
    found = rewrite.spark.sql(f"SELECT id, v, p FROM delta.`{rewrite.uri('b')}` WHERE id IN (3, 8) ORDER BY id").collect()
    assert [tuple(row) for row in found] == [(3, "it's" if match else "none", "changed"), (8, "none", None)]


@pytest.mark.soak
def test_apply_job_a_row_that_stays_keeps_its_null(rewrite: Rewrite) -> None:
    """Of equal rows some go, and all are taken away: what is left of them comes back as it was."""
    start, row = copied(rewrite, without="id IS NULL OR id IN (1, 4, 13)"), "(7, NULL, NULL, NULL, NULL, NULL, NULL)"
    rewrite.sql(f"INSERT INTO {{s}} VALUES {row}, {row}")
    lo = rewrite.version()
    rewrite.apply("b", rewrite.changes("cdf", start, lo), start, lo, match=[])
    rewrite.sql("DELETE FROM {s} WHERE id = 7")
    rewrite.sql(f"INSERT INTO {{s}} VALUES {row}")
    hi = rewrite.version()
    rewrite.apply("b", rewrite.changes("cdf", lo, hi), lo, hi, match=[], inserts={"v": "coalesce(s.v, CAST(('none') AS STRING))"})
    assert [tuple(found) for found in rewrite.spark.sql(f"SELECT id, v FROM delta.`{rewrite.uri('b')}` WHERE id = 7").collect()] == [
        (7, None)
    ]
