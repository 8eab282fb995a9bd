"""A writer process of the stress test: changes rows of its own ids until it is refused or told to stop, and remembers every answer.

``python -m tests.support.spark.stress_writer KIND SPARK_URL`` reads one job a line (the arguments of ``work`` in JSON), works at it until
the next line comes (any: an empty one is no job) and answers ``done``: starting a writer takes half as long as a round, so one lives
through all. Each line of a job's log is written and synced before an operation begins (``try``) and after it was acknowledged (``ack``)
or refused (``no``): whoever reads it knows what must be there, what must not, and what may be either way.
"""

from __future__ import annotations

import json
import os
import random
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from airflow_provider_schemamig.core.access.errors import WriterFenced
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A writer's ids are its number times this, and up.
IDS = 1_000_000
#: Values from here on are changed ones.
FIRST_CHANGED = 100
KINDS = ("ours-arrow", "ours-spark", "spark", "delta-rs")
#: Of a sealed table, and of one that asks for more than delta-rs or a handle without Spark can do.
_OVER = ("schemamig_moved_to", "APPEND_ONLY", "append only", "appendOnly", "Boolean(false)", "Unsupported table features", "needs_spark")

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
            yield [{"id": found, "owner": kind, "v": rng.randint(0, FIRST_CHANGED - 1)} for found in ids], []
        elif dice < 0.8:
            ids = rng.sample(alive, 2)
            yield [{"id": found, "owner": kind, "v": rng.randint(FIRST_CHANGED, 999)} for found in ids], []
        else:
            found = alive.pop(rng.randrange(len(alive)))
            yield [], [found]


def _arrow(rows: Sequence[Row]) -> Any:
    import pyarrow as pa

    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("owner", pa.string()), pa.field("v", pa.int32())])
    return pa.Table.from_pylist(list(rows), schema=schema)


def delta_rs(path: str) -> Callable[[Change], None]:
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake

    def write(change: Change) -> None:
        table = DeltaTable(path)
        rows = pa.Table.from_pylist(list(change[0]), schema=pa.schema(table.schema().to_arrow()))
        write_deltalake(table, rows, mode="append")

    return write


def plain_spark(path: str, spark: SparkSession) -> Callable[[Change], None]:
    table = f"delta.`{path}`"

    def write(change: Change) -> None:
        rows, gone = change
        if gone:
            spark.sql(f"DELETE FROM {table} WHERE id = {gone[0]}").collect()
            return
        if _all_new(rows):
            spark.sql(f"INSERT INTO {table} (id, owner, v) VALUES {_values(rows)}").collect()
            return
        spark.sql(
            f"MERGE INTO {table} t USING (SELECT * FROM VALUES {_values(rows)} AS s(id, owner, v)) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET t.v = s.v WHEN NOT MATCHED THEN INSERT (id, owner, v) VALUES (s.id, s.owner, s.v)"
        ).collect()

    return write


def ours(env: Environment, collection: str, spark: SparkSession | None) -> Callable[[Change], None]:
    writer = env.writer(collection, release="1.0.0", spark=spark)

    def write(change: Change) -> None:
        rows, gone = change
        if spark is None:
            writer.append(_arrow(rows))
        elif gone:  # our handle deletes nothing: it has the row's value changed instead
            writer.merge(_frame(spark, [{"id": gone[0], "owner": "ours-spark", "v": -1}]), on=["id"])
        elif _all_new(rows):
            writer.append(_frame(spark, rows))
        else:
            writer.merge(_frame(spark, rows), on=["id"])

    return write


def _all_new(rows: Sequence[Row]) -> bool:
    """An insert: it can be an append, which another append does not beat. A merge among appenders waits for a quiet moment."""
    return all(row["v"] < FIRST_CHANGED for row in rows)


def _values(rows: Sequence[Row]) -> str:
    return ", ".join(f"({row['id']}L, '{row['owner']}', {row['v']})" for row in rows)


def _frame(spark: SparkSession, rows: Sequence[Row]) -> Any:
    return spark.sql(f"SELECT * FROM VALUES {_values(rows)} AS s(id, owner, v)")


def _session(url: str) -> SparkSession:
    from airflow_provider_schemamig.core.spark.runners import connect_session
    from airflow_provider_schemamig.core.spark.session import with_meaning

    return with_meaning(connect_session(url))


def main(arguments: Sequence[str]) -> int:
    kind, url = arguments
    spark = _session(url) if kind in ("ours-spark", "spark") else None
    print("ready", flush=True)
    with open(0, "rb", buffering=0) as lines:  # not buffered, or select would not see the line after this one
        while line := lines.readline():
            if job := line.strip():
                with suppress(Refused):
                    work(kind, spark, lines, **json.loads(job))
                print("done", flush=True)
    return 0


def work(kind: str, spark: SparkSession | None, lines: IO[bytes], *, env: str, collection: str, log: str, seed: str, patient: bool) -> None:
    """Until it is refused for good, or a line waits; ``patient``: only until a line waits, for some seals are lifted."""
    write, remember = writer_of(kind, Environment.open(env), CollectionName(collection), spark), Log(Path(log))
    rng = random.Random(f"{seed}/{kind}")
    for number, change in enumerate(changes(kind, rng)):
        while not _answered(write, remember, number, change, patient):  # who lost a race tries again, as anybody would
            if _told_to_stop(lines, 0.1):
                return
        if _told_to_stop(lines, rng.uniform(1.0, 6.0)):  # faster or more regular, those who append would starve those who merge
            return


def _told_to_stop(lines: IO[bytes], seconds: float) -> bool:
    return bool(select.select([lines], [], [], seconds)[0])


def writer_of(kind: str, env: Environment, collection: CollectionName, spark: SparkSession | None) -> Callable[[Change], None]:
    if kind.startswith("ours"):
        return ours(env, collection, spark)
    path = str(env.table_location(LedgerReader(env).state().shard_of(collection).uri).local_path)
    return delta_rs(path) if spark is None else plain_spark(path, spark)


def _answered(write: Callable[[Change], None], log: Log, number: int, change: Change, patient: bool) -> bool:
    """Whether it was acknowledged; :class:`Refused` if it never will be, unless ``patient``."""
    log("try", number, change)
    try:
        write(change)
    except WriterFenced as fenced:
        log("no", number, change)
        if patient:
            return False
        raise Refused from fenced
    except Exception as error:
        log("no", number, change)
        if not patient and any(sign in str(error) for sign in _OVER):
            raise Refused from error
        print(f"{type(error).__name__}: {str(error)[:300]}", file=sys.stderr, flush=True)
        return False
    log("ack", number, change)
    return True


def replay(log: Path) -> dict[int, Row]:
    """What must be there, by id: of each operation that was begun the answer is known."""
    there: dict[int, Row] = {}
    open_end: str | None = None
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        open_end = line if entry["what"] == "try" else None
        if entry["what"] != "ack":
            continue
        there |= {row["id"]: row for row in entry["rows"]}
        for gone in entry["gone"]:
            if log.stem == "ours-spark":
                there[gone] = {"id": gone, "owner": "ours-spark", "v": -1}
            else:
                del there[gone]
    assert open_end is None, f"{log.stem} never said what became of {open_end}"
    return there


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
