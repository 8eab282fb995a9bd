"""A writer process of the stress test: changes rows of its own ids until it is refused, and remembers what was acknowledged.

``python -m tests.support.stress_writer KIND ENVIRONMENT COLLECTION LOG SPARK_URL SEED``. Each line of LOG is written and synced before an
operation begins (``try``) and after it was acknowledged (``ack``) or refused (``no``): whoever reads it knows what must be there, what
must not, and what may be either way.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.handles.errors import WriterFenced
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A writer's ids are its number times this, and up.
IDS = 1_000_000
KINDS = ("ours-arrow", "ours-spark", "spark", "delta-rs")
_SEALED = ("schemamig_moved_to", "APPEND_ONLY", "append only", "appendOnly", "Boolean(false)")

Row = dict[str, Any]
#: Inserted or changed rows, deleted ids.
Change = tuple[Sequence[Row], Sequence[int]]


class Refused(Exception):
    """The table takes no writes of this writer any more."""


class Log:
    def __init__(self, path: Path) -> None:
        self._file = path.open("a")

    def __call__(self, what: str, number: int, change: Change) -> None:
        self._file.write(json.dumps({"what": what, "number": number, "rows": change[0], "gone": change[1]}) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def changes(kind: str, rng: random.Random) -> Iterator[Change]:
    """What the writer does: inserts mostly; where it can, updates and deletes of rows that it has written."""
    first = (KINDS.index(kind) + 1) * IDS
    alive: list[int] = []
    number = 0
    while True:
        dice = rng.random()
        if kind in ("ours-arrow", "delta-rs") or dice < 0.5 or len(alive) < 5:
            ids = list(range(first + number, first + number + rng.randint(1, 3)))
            number += len(ids)
            alive += ids
            yield [{"id": found, "owner": kind, "v": rng.randint(0, 99)} for found in ids], []
        elif dice < 0.8:
            ids = rng.sample(alive, 2)
            yield [{"id": found, "owner": kind, "v": rng.randint(100, 999)} for found in ids], []
        else:
            found = alive.pop(rng.randrange(len(alive)))
            yield [], [found]


def _arrow(rows: Sequence[Row]) -> Any:
    import pyarrow as pa

    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("owner", pa.string()), pa.field("v", pa.int32())])
    return pa.Table.from_pylist(list(rows), schema=schema)


def delta_rs(path: str) -> Callable[[Change], None]:
    from deltalake import write_deltalake

    return lambda change: write_deltalake(path, _arrow(change[0]), mode="append")


def plain_spark(path: str, url: str) -> Callable[[Change], None]:
    spark = _session(url)
    table = f"delta.`{path}`"

    def write(change: Change) -> None:
        rows, gone = change
        if gone:
            spark.sql(f"DELETE FROM {table} WHERE id = {gone[0]}").collect()
            return
        values = ", ".join(f"({row['id']}L, '{row['owner']}', {row['v']})" for row in rows)
        spark.sql(
            f"MERGE INTO {table} t USING (SELECT * FROM VALUES {values} AS s(id, owner, v)) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET t.v = s.v WHEN NOT MATCHED THEN INSERT (id, owner, v) VALUES (s.id, s.owner, s.v)"
        ).collect()

    return write


def ours(env: Environment, collection: str, url: str | None) -> Callable[[Change], None]:
    spark = None if url is None else _session(url)
    writer = env.writer(collection, release="1.0.0", spark=spark)

    def write(change: Change) -> None:
        rows, gone = change
        if spark is None:
            writer.append(_arrow(rows))
        elif gone:
            spark.sql("SELECT 1").collect()  # our handle deletes nothing: it has the row's value changed instead
            writer.merge(_frame(spark, [{"id": gone[0], "owner": "ours-spark", "v": -1}]), on=["id"])
        else:
            writer.merge(_frame(spark, rows), on=["id"])

    return write


def _frame(spark: SparkSession, rows: Sequence[Row]) -> Any:
    values = ", ".join(f"({row['id']}L, '{row['owner']}', {row['v']})" for row in rows)
    return spark.sql(f"SELECT * FROM VALUES {values} AS s(id, owner, v)")


def _session(url: str) -> SparkSession:
    from airflow_provider_schemamig.core.spark.runners import connect_session
    from airflow_provider_schemamig.core.spark.session import with_meaning

    return with_meaning(connect_session(url))


def main(arguments: Sequence[str]) -> int:
    kind, uri, collection, log_path, url, seed = arguments
    env = Environment.open(uri)
    path = env.table_location(LedgerReader(env).state().shard_of(CollectionName(collection)).uri).local_path
    makers: Mapping[str, Callable[[], Callable[[Change], None]]] = {
        "ours-arrow": lambda: ours(env, collection, None),
        "ours-spark": lambda: ours(env, collection, url),
        "spark": lambda: plain_spark(str(path), url),
        "delta-rs": lambda: delta_rs(str(path)),
    }
    write, log = makers[kind](), Log(Path(log_path))
    Path(f"{log_path}.ready").touch()
    pause = 1.0 if kind in ("ours-arrow", "delta-rs") else 0.3  # faster, they would starve Spark of commits
    for number, change in enumerate(changes(kind, random.Random(f"{seed}/{kind}"))):
        try:
            _until_answered(write, log, number, change)
        except Refused:
            return 0
        time.sleep(pause)
    return 0


def _until_answered(write: Callable[[Change], None], log: Log, number: int, change: Change) -> None:
    """A writer that lost a race tries again, as anybody would; one that is refused for good stops."""
    while True:
        log("try", number, change)
        try:
            write(change)
        except WriterFenced as fenced:
            log("no", number, change)
            raise Refused from fenced
        except Exception as error:
            log("no", number, change)
            if any(sign in str(error) for sign in _SEALED):
                raise Refused from error
            print(f"{type(error).__name__}: {str(error)[:300]}", file=sys.stderr, flush=True)
            time.sleep(0.1)
            continue
        log("ack", number, change)
        return


def replay(log: Path) -> tuple[dict[int, Row], dict[int, list[Row | None]]]:
    """What must be there by id, and for ids whose last operation got no answer all that may be (None: no row)."""
    sure: dict[int, Row] = {}
    maybe: dict[int, list[Row | None]] = {}
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        for row in [
            *entry["rows"],
            *({"id": gone, "owner": "ours-spark", "v": -1} if "ours-spark" in log.name else {"id": gone} for gone in entry["gone"]),
        ]:
            wanted = row if "v" in row else None
            if entry["what"] == "try":
                maybe[row["id"]] = [sure.get(row["id"]), wanted]
                continue
            maybe.pop(row["id"], None)
            if entry["what"] == "no":
                continue
            if wanted is None:
                sure.pop(row["id"], None)
            else:
                sure[row["id"]] = wanted
    return sure, maybe


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
