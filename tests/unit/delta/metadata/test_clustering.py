"""CLUSTER BY in the log: one commit of a domain, by physical names, which no Spark writer's transaction is held to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.delta.commit.append import MetadataMoved
from airflow_provider_schemamig.core.delta.commit.commit import commit_changes
from airflow_provider_schemamig.core.delta.features import effective_features
from airflow_provider_schemamig.core.delta.log.commits import first_metadata_version, last_metadata_version
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.delta.log.listing import read_commit
from airflow_provider_schemamig.core.delta.metadata.clustering import clustering_domain, has_statistics
from airflow_provider_schemamig.core.delta.metadata.edit import edit
from airflow_provider_schemamig.core.delta.metadata.errors import CannotCluster, ColumnInUse
from airflow_provider_schemamig.core.delta.metadata.validate import InvalidCommit, TableState, validate
from airflow_provider_schemamig.core.schema.changes import AddColumn, Change, ChangeClustering, DropColumn, RenameColumn
from airflow_provider_schemamig.core.schema.errors import NotApplicable
from airflow_provider_schemamig.core.schema.model import Field, Struct
from airflow_provider_schemamig.core.storage import Store
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.unit.delta.tables import INT, NAME, TAG, add_int, fence, flights, make_table, path, raw, schema_of, table_store, write

BY_ID = ChangeClustering((), ("id",))
NESTED = flights(Field("id", INT), Field("s", Struct((Field("x", INT), Field("y", INT)))))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = table_store(tmp_path)
    make_table(found)
    return found


def commit(store: Store, *changes: Change) -> dict[str, Any]:
    """The actions of the commit, by kind."""
    done = commit_changes(store, read_head(store), changes, fence(), TAG, since=0)
    made = read_commit(store, done.head.version)
    assert read_head(store) == done.head
    kinds = ("protocol", "metaData", "domainMetadata")
    return {kind: made.actions(kind)[0] for kind in kinds if made.actions(kind)}


def test_one_commit_without_metadata(store: Store) -> None:
    actions = commit(store, BY_ID)
    assert actions.keys() == {"protocol", "domainMetadata"}
    assert {"clustering", "domainMetadata"} <= effective_features(actions["protocol"])
    configuration = '{"clusteringColumns":[["id"]],"domainName":"delta.clustering"}'
    assert actions["domainMetadata"] == {"domain": "delta.clustering", "configuration": configuration, "removed": False}
    assert read_head(store).declaration(NAME).clustered_by == ("id",)

    assert commit(store, ChangeClustering(("id",), ("dep_delay", "id"))).keys() == {"domainMetadata"}
    actions = commit(store, ChangeClustering(("dep_delay", "id"), ()))
    assert json.loads(actions["domainMetadata"]["configuration"])["clusteringColumns"] == []
    head = read_head(store)
    assert (head.clustering, head.features >= {"clustering", "domainMetadata"}) == ((), True)
    assert commit(store, ChangeClustering(("id",), ())) == {}, "it is like that already"


def test_physical_names_of_a_column_that_comes_with_it() -> None:
    """Column mapping gives a new column another physical name each time it is edited."""
    protocol, metadata, _ = edit(*raw(flights()), [RenameColumn(path("dep_delay"), "delay")])
    after = edit(protocol, metadata, [add_int("n"), ChangeClustering((), ("delay", "n"))])
    physical = {f["name"]: f["metadata"]["delta.columnMapping.physicalName"] for f in schema_of(after.metadata)["fields"]}
    assert after.clustering == (("dep_delay",), (physical["n"],))
    assert physical["n"] != "n"
    validate("file:///t", TableState(protocol, metadata), after)


def test_a_clustering_column_is_dropped_after_it_is_none() -> None:
    before = edit(*raw(NESTED), [ChangeClustering((), ("s.x",))])
    drop = DropColumn(path("s.x"))
    with pytest.raises(ColumnInUse, match="CLUSTER BY"):
        edit(before.protocol, before.metadata, [drop], clustering=before.clustering or ())
    after = edit(before.protocol, before.metadata, [ChangeClustering(("s.x",), ()), drop], clustering=before.clustering or ())
    assert after.clustering == ()


MANY = flights(*(Field(f"c{number}", INT) for number in range(40)))
REFUSED = [
    (flights(), {}, ChangeClustering((), ("nope",)), NotApplicable, "no such column"),
    (flights(), {}, ChangeClustering(("dep_delay",), ("id",)), NotApplicable, "is clustered by nothing"),
    (flights(partitioned_by=("dep_delay",)), {}, BY_ID, CannotCluster, "partitioned by dep_delay"),
    (MANY, {}, ChangeClustering((), ("c0", "c32")), CannotCluster, "by c32: Delta keeps no minimum"),
    (MANY, {"delta__dataSkippingNumIndexedCols": "5"}, ChangeClustering((), ("c5",)), CannotCluster, "by c5"),
    (flights(), {"delta__dataSkippingStatsColumns": "`dep_delay`"}, BY_ID, CannotCluster, "by id"),
]


@pytest.mark.parametrize(("declaration", "configuration", "change", "kind", "why"), REFUSED, ids=[case[4] for case in REFUSED])
def test_clustering_refused(declaration: Any, configuration: dict[str, str], change: Change, kind: type[SchemamigError], why: str) -> None:
    with pytest.raises(kind, match=why):
        edit(*raw(declaration, **configuration), [change])


STATISTICS = [
    (MANY, {}, ("c31",), True),
    (MANY, {"delta.dataSkippingNumIndexedCols": "-1"}, ("c39",), True),
    (NESTED, {"delta.dataSkippingNumIndexedCols": "2"}, ("s", "x"), True),
    (NESTED, {"delta.dataSkippingNumIndexedCols": "2"}, ("s", "y"), False),
    (NESTED, {}, ("s",), False),
    (NESTED, {"delta.dataSkippingStatsColumns": "s"}, ("s", "y"), True),
    (NESTED, {"delta.dataSkippingStatsColumns": "id,S.x"}, ("s", "x"), True),
    (NESTED, {"delta.dataSkippingStatsColumns": "id,s.x"}, ("s", "y"), False),
]


@pytest.mark.parametrize(("declaration", "configuration", "column", "kept"), STATISTICS)
def test_which_columns_have_statistics(declaration: Any, configuration: dict[str, str], column: tuple[str, ...], kept: bool) -> None:
    assert has_statistics(schema_of(raw(declaration)[1]), configuration, column) is kept


def test_the_last_look() -> None:
    protocol, metadata = raw(flights())
    with pytest.raises(InvalidCommit, match="lacks clustering, domainMetadata; clustering column x does not exist"):
        validate("file:///t", None, TableState(protocol, metadata, (("x",),)))
    raised = edit(protocol, metadata, [BY_ID]).protocol
    with pytest.raises(InvalidCommit, match="partitioned and clustered"):
        validate("file:///t", None, TableState(raised, {**metadata, "partitionColumns": ["dep_delay"]}, (("id",),)))


def test_whoever_changes_clustering_meanwhile_wins(store: Store) -> None:
    """Spark's own ALTER of a clustered table is no metaData either; a column by which it clusters must not be dropped after that."""
    commit(store, BY_ID)
    base = read_head(store)
    write(store, base.version + 1, {"domainMetadata": clustering_domain([["dep_delay"]])}, operation="CLUSTER BY")
    for change in (ChangeClustering(("id",), ()), AddColumn(path("n"), Field("n", INT)), DropColumn(path("dep_delay"))):
        with pytest.raises(MetadataMoved):
            commit_changes(store, base, [change], fence(), TAG, since=0)
    assert (first_metadata_version(store, 0), last_metadata_version(store, 0)) == (1, 2)


def test_row_ids_are_no_clustering(store: Store) -> None:
    """A table with row tracking commits a domain with every write."""
    base = read_head(store)
    write(store, 1, {"domainMetadata": {"domain": "delta.rowTracking", "configuration": "{}", "removed": False}})
    commit_changes(store, base, [BY_ID], fence(), TAG, since=0)
    assert first_metadata_version(store, 0) == 2
