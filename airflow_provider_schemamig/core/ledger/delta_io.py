"""The few things we ask of delta-rs, for the two Delta tables that are ours (ledger, history); users' tables are never written here.

Every commit goes without delta-rs' own hooks (they delete old log files at once) and without its retries (they would put a commit
at another version than the one it was decided on). No pyarrow: arro3 comes with deltalake and is enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from airflow_provider_schemamig.core.storage.errors import no_panics

if TYPE_CHECKING:
    from arro3.core import Table
    from deltalake import DeltaTable, PostCommitHookProperties

ArrowType = Literal["string", "bigint", "double", "timestamp"]


class Column(NamedTuple):
    """A column of one of our tables. Values of a timestamp are microseconds since 1970, UTC."""

    name: str
    type: ArrowType
    nullable: bool = False


def arrow(columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> Table:
    """Return an Arrow table of ``rows``, each in the order of ``columns``."""
    from arro3.core import Array, DataType, Field, Schema, Table

    types = {
        "string": DataType.utf8(),
        "bigint": DataType.int64(),
        "double": DataType.float64(),
        "timestamp": DataType.timestamp("us", tz="UTC"),
    }
    arrays = []
    for position, column in enumerate(columns):
        values = [row[position] for row in rows]
        if column.type == "timestamp":
            arrays.append(Array(values, DataType.int64()).cast(types["timestamp"]))
        else:
            arrays.append(Array(values, types[column.type]))
    return Table.from_arrays(arrays, schema=Schema([Field(c.name, types[c.type], nullable=c.nullable) for c in columns]))


@no_panics()
def open_table(uri: str, options: Mapping[str, str]) -> DeltaTable:
    from deltalake import DeltaTable

    return DeltaTable(uri, storage_options=dict(options))


@no_panics()
def update(table: DeltaTable) -> None:
    """Bring the handle to the newest version."""
    table.update_incremental()


def is_there(uri: str, options: Mapping[str, str]) -> bool:
    """Return whether delta-rs finds a table; False also where it cannot tell."""
    from deltalake import DeltaTable

    try:
        return DeltaTable.is_deltatable(uri, dict(options))
    except Exception:  # noqa: BLE001 - delta-rs raises plain Exception, too
        return False


def wrong_columns(table: DeltaTable, columns: Sequence[Column]) -> str | None:
    """Return which of ``columns`` the table has not, or as another type, in words; None: it has them all."""
    types = {"string": "string", "bigint": "long", "double": "double", "timestamp": "timestamp"}
    found = {field.name: (getattr(field.type, "type", "nested"), field.nullable) for field in table.schema().fields}
    wrong = [column.name for column in columns if found.get(column.name) != (types[column.type], column.nullable)]
    return f"it has no column {', '.join(wrong)} as this software makes it" if wrong else None


@no_panics()
def read(table: DeltaTable, columns: Sequence[Column], where: str = "true") -> list[list[Any]]:
    """Return the values of each column at the handle's version, of rows for which the SQL text ``where`` holds, in no particular order."""
    from deltalake import QueryBuilder

    names = ", ".join(f'"{column.name}"' for column in columns)
    batches = QueryBuilder().register("t", table).execute(f"SELECT {names} FROM t WHERE {where}").read_all()
    return [list(batches.column(column.name).to_pylist()) for column in columns]


@no_panics()
def write(
    target: DeltaTable | str,
    rows: Table,
    *,
    mode: Literal["error", "append", "overwrite"],
    commit_id: str,
    options: Mapping[str, str],
    configuration: Mapping[str, str] | None = None,
    retries: int = 0,
) -> None:
    """Make one commit, tagged with ``commit_id`` as its userMetadata; with ``retries`` 0 at exactly the handle's version + 1.

    ``configuration``: table properties, for a new table only.
    """
    from deltalake import CommitProperties, write_deltalake

    write_deltalake(
        target,
        rows,
        mode=mode,
        storage_options=dict(options) if isinstance(target, str) else None,
        # Statistics of JSON text would be most of the log.
        configuration=dict(configuration) if configuration else None,
        commit_properties=CommitProperties(custom_metadata={"userMetadata": commit_id}, max_commit_retries=retries),
        post_commithook_properties=_no_hooks(),
    )


@no_panics()
def compact_files(table: DeltaTable) -> None:
    """Write many small files as few and checkpoint; the rows stay what they are."""
    table.optimize.compact(post_commithook_properties=_no_hooks())
    table.update_incremental()
    table.create_checkpoint()


def _no_hooks() -> PostCommitHookProperties:
    from deltalake import PostCommitHookProperties

    return PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
