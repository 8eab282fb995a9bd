"""A source with rows of every shape, a target in another shape, and the jobs between them."""

from __future__ import annotations

import importlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.delta.actions import RawAction
from airflow_provider_schemamig.core.delta.commit.scratch import scratch_table
from airflow_provider_schemamig.core.delta.log.files import FileDifference, active_files, batches, file_difference
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.spark.rows_digest import RowsDigest
from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner, Job, JobRunner
from airflow_provider_schemamig.core.storage import Location, StorageOptions, Store, open_store
from airflow_provider_schemamig.core.storage.own_places import SCRATCH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "id INT, v STRING, p STRING, tags ARRAY<INT>, o STRUCT<code: STRING, m: MAP<STRING, ARRAY<INT>>>, m MAP<STRING, INT>, d DATE"
TARGET_COLUMNS = COLUMNS.replace("id INT", "id BIGINT").replace("tags ARRAY<INT>", "tags ARRAY<BIGINT>")
NAMES = ("id", "v", "p", "tags", "o", "m", "d")
#: Row-local, in another type for some columns, and one row of the source may become none or two.
UP = """SELECT CAST(id AS BIGINT) AS id, concat(v, part) AS v, p, tags, o, m, d
        FROM (SELECT * FROM s WHERE id IS NULL OR id <> 13) LATERAL VIEW explode(IF(v = 'twice', array('a', 'b'), array(''))) AS part"""
#: Partition values that have to be encoded: once in a folder's name, once more in a path of the log.
ODD = ("a b", "50%", "é/ü", "x=1:2?#")
#: Three equal rows (a map has no order), a row that becomes two, one that becomes none, and two of nothing but NULL.
ROWS = (
    f"(1, 'one', '{ODD[0]}', array(1, NULL), named_struct('code', 'J', 'm', map('x', array(1), 'y', array(2))), map('a', 1, 'b', 2), NULL)",
    f"(1, 'one', '{ODD[0]}', array(1, NULL), named_struct('code', 'J', 'm', map('y', array(2), 'x', array(1))), map('b', 2, 'a', 1), NULL)",
    f"(1, 'one', '{ODD[0]}', array(1, NULL), named_struct('code', 'J', 'm', map('y', array(2), 'x', array(1))), map('b', 2, 'a', 1), NULL)",
    f"(2, 'twice', '{ODD[1]}', array(), named_struct('code', NULL, 'm', NULL), map(), DATE'2013-01-01')",
    f"(3, 'it''s', '{ODD[2]}', NULL, NULL, NULL, DATE'2013-01-03')",
    f"(4, 'four', '{ODD[3]}', array(4), named_struct('code', 'LGA', 'm', map()), map('k', NULL), NULL)",
    f"(13, 'none', '{ODD[3]}', NULL, NULL, NULL, NULL)",
    "(NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "(NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
)
#: What writers do, a commit each.
HISTORY = (
    f"INSERT INTO {{s}} VALUES {ROWS[0]}, {ROWS[-1]}, (20, 'twice', 'new', NULL, NULL, map('z', 1), NULL)",
    "UPDATE {s} SET m = map('b', 9, 'a', 8), p = 'moved here' WHERE id = 3",
    "DELETE FROM {s} WHERE id = 2 OR (id IS NULL AND p IS NULL)",
    f"INSERT INTO {{s}} VALUES {ROWS[-1]}",
)


@dataclass(frozen=True)
class OnSession(JobRunner):
    """Runs jobs on a session as it is."""

    session: SparkSession

    def run(self, job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = importlib.import_module(f"spark_jobs.{job}").run(self.session, request)
        return found

    def cancel(self) -> None:
        raise NotImplementedError


@dataclass
class Rewrite:
    """``source`` in a folder of odd characters, ``target`` beside it; ``runner`` runs the jobs."""

    spark: SparkSession
    root: Path
    runner: JobRunner = field(default_factory=EmbeddedRunner)
    query: str = UP

    @property
    def env_store(self) -> Store:
        return open_store(Location.parse(str(self.root)), StorageOptions())

    def uri(self, name: str) -> str:
        return f"file://{self.root}/{name}"

    def store(self, name: str) -> Store:
        return open_store(Location.parse(self.uri(name)), StorageOptions())

    def version(self, name: str = "the source") -> int:
        return read_head(self.store(name)).version

    def sql(self, statement: str) -> list[Any]:
        """``{s}`` stands for the source, ``{name}`` for nothing else."""
        return list(self.spark.sql(statement.replace("{s}", f"delta.`{self.uri('the source')}`")).collect())

    def make_source(self, layout: str) -> None:
        self.sql(f"CREATE TABLE {{s}} ({COLUMNS}) USING delta {layout}")
        for rows in (ROWS[:5], ROWS[5:]):
            self.sql(f"INSERT INTO {{s}} SELECT /*+ COALESCE(1) */ * FROM VALUES {', '.join(rows)}")

    def make_target(self, name: str, more: str = "") -> None:
        self.spark.sql(f"CREATE TABLE delta.`{self.uri(name)}` ({TARGET_COLUMNS}) USING delta {more}")

    def rows(self, name: str) -> Counter[str]:
        """The target's rows with how often each is there."""
        return _counted(self.spark.sql(f"SELECT * FROM delta.`{self.uri(name)}`").collect())

    def expected(self, version: int) -> Counter[str]:
        """What the query makes of the source at a version, by Spark alone."""
        session = self.spark.newSession()
        session.sql(f"SELECT * FROM delta.`{self.uri('the source')}` VERSION AS OF {version}").createOrReplaceTempView("s")
        return _counted(session.sql(self.query).collect())

    # --- the jobs ------------------------------------------------------------------------------------------------------------------

    def copy(self, target: str, version: int, max_files: int = 1) -> int:
        """Batch by batch; how many batches it took."""
        found = batches(active_files(self.store("the source"), version).values(), max_files, 10**9)
        for number, files in enumerate(found):
            scratch = self.scratch(f"{SCRATCH}/{target}/{number}", version, files)
            self.fill(target, {"uri": scratch, "version": 0}, f"copy:{number}")
        self.env_store.delete_tree(f"{SCRATCH}/{target}")
        return len(found)

    def fill(self, target: str, source: dict[str, Any], what: str) -> dict[str, Any]:
        inputs = {"s": {**source, "projection": ", ".join(NAMES)}}
        request = {"shard_uri": self.uri(target), "mode": "append", "inputs": inputs, **self._common(what, {"what": what})}
        return self.runner.run("fill", request)

    def scratch(self, key: str, version: int, files: Sequence[RawAction]) -> str:
        return scratch_table(self.env_store, key, read_head(self.store("the source"), version), files).uri

    def difference(self, lo: int, hi: int) -> FileDifference:
        return file_difference(self.store("the source"), lo, hi)

    def changes(self, kind: str, lo: int, hi: int) -> dict[str, Any]:
        if kind == "cdf":
            return {"kind": "cdf", "uri": self.uri("the source"), "from": lo + 1, "to": hi}
        found = self.difference(lo, hi)
        sides = {"added": found.added, "removed": found.removed}
        return {"kind": "files", **{name: self.scratch(f"scratch/{name}", hi, files) if files else None for name, files in sides.items()}}

    def apply(self, target: str, changes: dict[str, Any], lo: int, hi: int, **more: Any) -> dict[str, Any]:
        request = {
            "target_uri": self.uri(target),
            "source_view": "s",
            "projection": ", ".join(NAMES),
            "inputs": {},
            "changes": changes,
            "match": [],
            "source": {"uri": self.uri("the source"), "version": hi},
            **self._common(f"tail:{lo}", {"lo": lo, "hi": hi}),
        }
        return self.runner.run("apply", {**request, **more})

    def digests(self, target: str, version: int) -> tuple[RowsDigest, RowsDigest]:
        """Of the query over the source at ``version``, and of the target."""
        source = {"uri": self.uri("the source"), "version": version, "projection": ", ".join(NAMES)}
        found = {"uri": self.uri(target), "version": None, "projection": "*"}
        parts = [
            {"name": "up", "inputs": {"s": source}, "query": self.query, "columns": NAMES, "like": self.uri(target)},
            {"name": "b", "inputs": {"b": found}, "query": "SELECT * FROM b", "columns": NAMES},
        ]
        digests = self.runner.run("digest", {"collection": "t", "parts": parts})["digests"]
        return RowsDigest.from_json(digests["up"]), RowsDigest.from_json(digests["b"])

    def file_digest(self, target: str, lo: int, hi: int) -> RowsDigest:
        """Of the rows in the files that came to the target between two versions, minus those in the files that went."""
        store = self.store(target)
        found, sides = file_difference(store, lo, hi), {}
        for name, files in (("added", found.added), ("removed", found.removed)):
            uri = scratch_table(self.env_store, f"scratch/{name}", read_head(store), files).uri
            sides[name] = {"inputs": {"b": {"uri": uri, "version": 0, "projection": "*"}}, "query": "SELECT * FROM b", "columns": NAMES}
        request = {"parts": [{"name": name, **side} for name, side in sides.items()]}
        digests = {name: RowsDigest.from_json(digest) for name, digest in self.runner.run("digest", request)["digests"].items()}
        return digests["added"] - digests["removed"]

    def operation(self, target: str) -> str:
        """Of the target's newest commit."""
        (row,) = self.spark.sql(f"DESCRIBE HISTORY delta.`{self.uri(target)}` LIMIT 1").collect()
        return str(row["operation"])

    def vacuum(self) -> None:
        """Everything that is not in the newest version, at once."""
        unsafe = "spark.databricks.delta.retentionDurationCheck.enabled"
        self.spark.conf.set(unsafe, "false")
        try:
            self.sql("VACUUM {s} RETAIN 0 HOURS")
        finally:
            self.spark.conf.unset(unsafe)

    def cached(self) -> int:
        """How many tables and views are cached, in any session."""
        return int(self.spark._jsparkSession.sharedState().cacheManager().numCachedEntries())

    def _common(self, what: str, notes: dict[str, Any]) -> dict[str, Any]:
        return {
            "collection": "t",
            "storage_options": {},
            "query": self.query,
            "columns": list(NAMES),
            "txn_app_id": f"schemamig:env:shard:{what}",
            "txn_version": 1,
            "user_metadata": json.dumps({"schemamig": notes}),
        }


def _counted(rows: list[Any]) -> Counter[str]:
    return Counter(json.dumps(row.asDict(recursive=True), sort_keys=True, default=str) for row in rows)
