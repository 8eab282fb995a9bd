"""Protocol, metaData, domains and transaction identifiers out of checkpoints and ``.crc`` files; never the list of files.

Parquet checkpoints are read by column, so a checkpoint of 100,000 files costs a few milliseconds. pyarrow is
imported when the first one is met: a table without checkpoints, or with a ``.crc``, does not need it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.delta.action_forms import are_usable, plain
from airflow_provider_schemamig.core.delta.actions import LogCommit, RawAction, checked
from airflow_provider_schemamig.core.delta.errors import LogDamaged
from airflow_provider_schemamig.core.delta.log.listing import LOG, crc_key
from airflow_provider_schemamig.core.storage import ObjectMissing, ReadStore

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet as parquet


@dataclass(frozen=True, slots=True)
class LogSnapshot:
    """The table's state at one version, as far as it is no file. ``domains`` and ``txns`` None: not known here."""

    protocol: RawAction
    metadata: RawAction
    domains: Sequence[RawAction] | None
    txns: Sequence[RawAction] | None


def read_crc(store: ReadStore, version: int) -> LogSnapshot | None:
    """Read Spark's version checksum, which repeats protocol and metadata.

    None if it is missing, damaged or lacks them, because writers make it at best effort.
    """
    try:
        found = json.loads(store.get(crc_key(version)))
        protocol, metadata, domains, txns = (found.get(key) for key in ("protocol", "metadata", "domainMetadata", "setTransactions"))
    except (ObjectMissing, ValueError, AttributeError, RecursionError):
        return None
    if not all(isinstance(actions, list | None) for actions in (domains, txns)) or not are_usable(
        protocol, metadata, domains or (), txns or ()
    ):
        return None
    return LogSnapshot(protocol, plain("metaData", metadata), domains, txns)


def read_checkpoint(store: ReadStore, names: Iterable[str], *, with_txns: bool = False) -> LogSnapshot:
    """Read a classic, multi-part or V2 checkpoint, its parts in any order. Raises LogDamaged if it lacks protocol or metaData.

    The sidecars of a V2 checkpoint hold files only. Transaction identifiers can be many; they are read on request.
    """
    kinds = ["protocol", "metaData", "domainMetadata", *(["txn"] if with_txns else [])]
    found: dict[str, list[RawAction]] = {kind: [] for kind in kinds}
    for name in names:
        for kind, actions in _actions(store, name, kinds).items():
            found[kind] += actions
    if not found["protocol"] or not found["metaData"]:
        raise LogDamaged(uri=store.location.uri, reason=f"checkpoint {'/'.join(names)} lacks protocol or metaData")
    return LogSnapshot(found["protocol"][-1], found["metaData"][-1], found["domainMetadata"], found.get("txn"))


def _actions(store: ReadStore, name: str, kinds: Sequence[str]) -> Mapping[str, Sequence[RawAction]]:
    if name.endswith(".json"):
        commit = read_json(store, name)
        return {kind: commit.actions(kind) for kind in kinds}
    table = read_parquet(store, name, kinds, _is_there)
    uri = store.location.uri
    return {kind: [checked(kind, _plain(item), uri, name) for item in table[kind].drop_null()] for kind in table.column_names}


_BATCH_ROWS = 10_000
#: A field that every action of a kind has.
_REQUIRED = {"protocol": "minReaderVersion", "metaData": "id", "domainMetadata": "domain", "txn": "appId"}


def _is_there(metadata: Any, kind: str) -> bool:
    """Return whether the file has such actions, by its statistics. To find none among a million files takes as long as to find one."""
    path = f"{kind}.{_REQUIRED[kind]}"
    at = next((number for number in range(metadata.num_columns) if metadata.schema.column(number).path == path), None)
    if at is None:
        return True
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    chunks = ((group.num_rows, group.column(at).statistics) for group in groups)
    return any(found is None or not found.has_null_count or found.null_count < rows for rows, found in chunks)


def read_json(store: ReadStore, name: str) -> LogCommit:
    """Read a V2 checkpoint in JSON, which has the form of a commit and must not disappear. Raises LogDamaged."""
    with damage(store, name):
        return LogCommit(-1, store.get(f"{LOG}/{name}"), store.location.uri, name)


def read_parquet(
    store: ReadStore, name: str, columns: Sequence[str], is_there: Callable[[Any, str], bool] = lambda metadata, column: True
) -> pyarrow.Table:
    """Read ``columns`` (dotted, if only a part of one is wanted) of a checkpoint or sidecar.

    Columns that the file lacks are left out, and those that ``is_there`` denies by its footer. Raises LogDamaged.
    """
    with _parquet(store, name) as file:
        return file.read(columns=_known(file, columns, is_there), use_threads=False)


def read_batches(store: ReadStore, name: str, columns: Sequence[str]) -> Iterator[pyarrow.RecordBatch]:
    """Yield the same, some thousand rows at a time: a table can have a million files, which are gibibytes at once."""
    with _parquet(store, name) as file:
        _check_paths(file, {column.partition(".")[0] for column in columns})
        yield from file.iter_batches(batch_size=_BATCH_ROWS, columns=_known(file, columns), use_threads=False)


def _check_paths(file: parquet.ParquetFile, kinds: Iterable[str]) -> None:
    """Raise ValueError for actions of another form: pyarrow leaves out what it does not find, and there would be no files."""
    import pyarrow.types as types

    schema = file.schema_arrow
    for column in (schema.field(kind) for kind in kinds if kind in schema.names):
        has_path = types.is_struct(column.type) and column.type.get_field_index("path") >= 0
        if not has_path and not types.is_null(column.type):
            raise ValueError(f"its column {column.name} has no path")


@contextlib.contextmanager
def _parquet(store: ReadStore, name: str) -> Iterator[parquet.ParquetFile]:
    import pyarrow.parquet as parquet

    with damage(store, name), store.open_random(f"{LOG}/{name}") as source:
        yield parquet.ParquetFile(source)


def _known(
    file: parquet.ParquetFile, columns: Sequence[str], is_there: Callable[[Any, str], bool] = lambda metadata, column: True
) -> Sequence[str]:
    known = set(file.schema_arrow.names)
    return [column for column in columns if column.partition(".")[0] in known and is_there(file.metadata, column)]


@contextlib.contextmanager
def damage(store: ReadStore, name: str, *odd: type[Exception]) -> Iterator[None]:
    """Raise LogDamaged for what is raised while a file of the log is read. ``odd``: what else a file of another form makes be raised."""
    errors: tuple[type[Exception], ...] = (ValueError, OSError, *odd)  # pyarrow's own are one of the two
    try:
        yield
    except ObjectMissing:
        raise LogDamaged(uri=store.location.uri, reason=f"{name} disappeared while it was read") from None
    except errors as error:
        raise LogDamaged(uri=store.location.uri, reason=f"{name}: {error}") from error


def _plain(scalar: Any) -> Any:
    """Return an Arrow scalar as the JSON action has it: maps are objects, and what is null is left out."""
    import pyarrow
    import pyarrow.types as types

    if not scalar.is_valid:
        return None
    if types.is_struct(scalar.type):
        plain = {name: _plain(item) for name, item in scalar.items()}
        return {name: item for name, item in plain.items() if item is not None}
    if types.is_map(scalar.type):
        return dict(scalar.as_py())
    if types.is_list(scalar.type):
        return [_plain(item) for item in scalar.values]
    if types.is_timestamp(scalar.type):
        return scalar.cast(pyarrow.timestamp("ms"), safe=False).value
    return scalar.as_py()
