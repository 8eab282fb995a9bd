"""Which times delta-rs reads rightly.

Spark writes a TIMESTAMP as INT96 unless it is told otherwise. delta-rs takes that for nanoseconds since 1970 in 64 bits, which do not reach
beyond 1677-09-21 and 2262-04-11: a time outside comes out as another one, without an error. So it is let near a file only if the file's
statistics in the log say that all its times are well within, or its footer says that they are no INT96.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from urllib.parse import unquote

from airflow_provider_schemamig.core.deltalog.actions import RawAction
from airflow_provider_schemamig.core.deltalog.files import active_files
from airflow_provider_schemamig.core.deltalog.head import Head
from airflow_provider_schemamig.core.deltalog.log import is_all_null, limits_text
from airflow_provider_schemamig.core.deltalog.names import stored_names
from airflow_provider_schemamig.core.deltalog.properties import MAPPING_MODE
from airflow_provider_schemamig.core.handles.errors import NeedsSpark
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.schema.model import Array, DataType, Map, Primitive, Struct
from airflow_provider_schemamig.core.schema.paths import Fields, join, path_in_files
from airflow_provider_schemamig.core.storage import ObjectMissing, ReadStore

_TIME = Primitive("timestamp")
#: Years that lie within as a whole: by any time zone, and by statistics, which are cut to milliseconds.
_YEARS = range(1678, 2262)
_TEXT = re.compile(r"(\d{4})-\d\d-\d\d[T ]\d\d:")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|/")
_THREADS = 16
#: Columns in INT96 by file, which never changes.
_footers: dict[tuple[str, str, int], frozenset[str]] = {}
_MOST_FOOTERS = 100_000


@dataclass(frozen=True, slots=True)
class _Time:
    """A TIMESTAMP of a table. ``in_files``: the names of all that it is in, and its own. ``has_statistics``: it is in no array or map."""

    path: str
    in_files: tuple[str, ...]
    has_statistics: bool


def check_times(store: ReadStore, head: Head, columns: Fields, collection: CollectionName, doing: str) -> None:
    """Raises NeedsSpark if delta-rs might read a TIMESTAMP of ``columns``, as the table calls them, as another one. Raises as
    ``active_files`` does."""
    names = stored_names(head.schema)
    found = [time for column in columns for time in _times(column.type, column.name, has_statistics=True)]
    times = [_Time(path, path_in_files(path, names), has_statistics) for path, has_statistics in found]
    if not times:
        return
    files = active_files(store, head.version, statistics=True).values()
    doubtful = [(file, left) for file in files if (left := [time for time in times if not _is_within(file, time)])]
    by_id = head.properties.get(MAPPING_MODE, "").lower() == "id"
    with ThreadPoolExecutor(_THREADS) as pool:
        footers = pool.map(partial(_int96_in, store), [file for file, _ in doubtful])
        for (file, left), int96 in zip(doubtful, footers, strict=True):
            time = _first_in(int96, left, by_id=by_id)
            if time is not None:
                pool.shutdown(wait=False, cancel_futures=True)
                lies = f"column {time.path} is INT96 in {unquote(str(file['path']))}"
                because = f"{lies}, and nothing says that its times are between 1678 and 2261; all others would be read as wrong ones"
                raise NeedsSpark(collection=collection, doing=doing, because=because)


def _times(data_type: DataType, path: str, *, has_statistics: bool) -> Iterator[tuple[str, bool]]:
    """The paths of all TIMESTAMPs in a column, and whether files have statistics of them."""
    match data_type:
        case Primitive():
            if data_type == _TIME:
                yield path, has_statistics
        case Array(element=element):
            yield from _times(element, join(path, "element"), has_statistics=False)
        case Map(key=key, value=value):
            yield from _times(key, join(path, "key"), has_statistics=False)
            yield from _times(value, join(path, "value"), has_statistics=False)
        case Struct(fields=fields):
            for field in fields:
                yield from _times(field.type, join(path, field.name), has_statistics=has_statistics)


def _is_within(file: RawAction, time: _Time) -> bool:
    """Whether the log proves it of all times in the file."""
    if time.in_files[0] in (file.get("partitionValues") or {}):
        return True  # it is not in the file
    if not time.has_statistics:
        return False
    if is_all_null(file, time.in_files):
        return True
    limits = limits_text(file, time.in_files)
    return limits is not None and all((text := _TEXT.match(limit)) is not None and int(text[1]) in _YEARS for limit in limits)


def _first_in(int96: frozenset[str] | None, times: Sequence[_Time], *, by_id: bool) -> _Time | None:
    """The first of ``times`` that is INT96, or may be. ``by_id``: a file may call columns otherwise than the table does."""
    if int96 is None or (by_id and int96):
        return times[0]
    return next((time for time in times if time.in_files[0] in int96), None)


def _int96_in(store: ReadStore, file: RawAction) -> frozenset[str] | None:
    """The columns with INT96 in them, by the file's footer; None if it cannot be read from here."""
    path = unquote(str(file["path"]), errors="surrogateescape")
    if _SCHEME.match(path):  # of another table: a shallow clone
        return None
    key = (store.location.uri, path, int(file.get("modificationTime") or 0))
    if key not in _footers:
        try:
            found = _int96_columns(store, path)
        except (ObjectMissing, ValueError):  # pyarrow's errors are ValueErrors
            return None
        if len(_footers) >= _MOST_FOOTERS:
            _footers.clear()
        _footers[key] = found
        return found
    return _footers.get(key)


def _int96_columns(store: ReadStore, path: str) -> frozenset[str]:
    import pyarrow.parquet as parquet

    with store.open_random(path) as source:
        schema = parquet.read_metadata(source).schema
    columns = [schema.column(number) for number in range(len(schema))]
    return frozenset(str(column.path).partition(".")[0] for column in columns if column.physical_type == "INT96")
