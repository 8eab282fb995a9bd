"""Which times and dates delta-rs reads rightly.

Spark writes a TIMESTAMP as INT96 unless it is told otherwise. delta-rs takes that for nanoseconds since 1970 in 64 bits, which do not reach
beyond 1677-09-21 and 2262-04-11: a time outside comes out as another one, without an error. And before 3.0 Spark wrote dates before
1582-10-15 by the Julian calendar, and times before 1900 by other clocks, as it still does if told to (LEGACY); delta-rs does not know of
that. So it is let near a file only if the file's statistics in the log say that all values lie well within, or its footer says that it is
neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from functools import partial
from urllib.parse import unquote

from airflow_provider_schemamig.core.access.errors import NeedsSpark
from airflow_provider_schemamig.core.delta.actions import RawAction
from airflow_provider_schemamig.core.delta.log.commits import is_all_null, limits_text
from airflow_provider_schemamig.core.delta.log.files import active_files
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.schema.delta_rules.table_features import MAPPING_MODE
from airflow_provider_schemamig.core.schema.model import Array, DataType, Map, Primitive, Struct
from airflow_provider_schemamig.core.schema.paths import Fields, join, path_in_files
from airflow_provider_schemamig.core.storage import ObjectMissing, ReadStore

_TIME, _DATE = Primitive("timestamp"), Primitive("date")
#: From when on all calendars and clocks of Spark are the same.
_FIRST_TIME, _FIRST_DATE = datetime(1900, 1, 1, tzinfo=UTC), date(1582, 10, 15)
#: The last year that INT96 holds as a whole: by any time zone, and by statistics, which are cut to milliseconds.
_LAST_YEAR = 2261
#: Of a time without a zone: where a clock shows it first.
_EASTMOST = timezone(timedelta(hours=18))
_TIME_TEXT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:")
_DATE_TEXT = re.compile(r"\d{4}-\d\d-\d\d")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|/")
_THREADS = 16
_SPARK = "org.apache.spark.version"
_LEGACY = "org.apache.spark.legacyDateTime"
_FIRST_NEW_SPARK = 3


@dataclass(frozen=True, slots=True)
class _Footer:
    """What a file says of its times. ``int96``: dotted paths of columns. ``is_old_calendar``: or may be."""

    int96: tuple[str, ...]
    is_old_calendar: bool


#: By file, which never changes.
_footers: dict[tuple[str, str, int], _Footer] = {}
_MOST_FOOTERS = 100_000


@dataclass(frozen=True, slots=True)
class _Time:
    """A TIMESTAMP or DATE of a table. ``in_files``: the names of all that it is in, and its own. ``has_statistics``: it is in no array or
    map."""

    path: str
    in_files: tuple[str, ...]
    is_date: bool
    has_statistics: bool


@dataclass(frozen=True, slots=True)
class _Proven:
    """What the log proves of all values in a file. ``is_new``: the same by all calendars. ``is_within``: besides, such that INT96 holds."""

    is_new: bool
    is_within: bool


_ALL, _NOTHING = _Proven(is_new=True, is_within=True), _Proven(is_new=False, is_within=False)


def check_times(store: ReadStore, head: Head, columns: Fields, collection: CollectionName, doing: str) -> None:
    """Raise NeedsSpark if delta-rs might read a TIMESTAMP or DATE of ``columns`` (the table's names) as another one. Raises as
    ``active_files`` does."""
    names = head.stored_names
    found = [time for column in columns for time in _times(column.type, column.name, has_statistics=True)]
    times = [_Time(path, path_in_files(path, names), kind == _DATE, has_statistics) for path, kind, has_statistics in found]
    if not times:
        return
    files = active_files(store, head.version, statistics=True).values()
    doubtful = [(file, left) for file in files if (left := [(time, proven) for time in times if (proven := _proven(file, time)) != _ALL])]
    by_id = head.properties.get(MAPPING_MODE, "").lower() == "id"
    with ThreadPoolExecutor(_THREADS) as pool:
        footers = pool.map(partial(_footer_of, store), [file for file, _ in doubtful])
        for (file, left), footer in zip(doubtful, footers, strict=True):
            because = next((why for time, proven in left if (why := _doubt(file, footer, time, proven, by_id=by_id)) is not None), None)
            if because is not None:
                pool.shutdown(wait=False, cancel_futures=True)
                raise NeedsSpark(collection=collection, doing=doing, because=because)


def _times(data_type: DataType, path: str, *, has_statistics: bool) -> Iterator[tuple[str, Primitive, bool]]:
    """Yield the paths and types of all TIMESTAMPs and DATEs in a column, and whether files have statistics of them."""
    match data_type:
        case Primitive():
            if data_type in (_TIME, _DATE):
                yield path, data_type, has_statistics
        case Array(element=element):
            yield from _times(element, join(path, "element"), has_statistics=False)
        case Map(key=key, value=value):
            yield from _times(key, join(path, "key"), has_statistics=False)
            yield from _times(value, join(path, "value"), has_statistics=False)
        case Struct(fields=fields):
            for field in fields:
                yield from _times(field.type, join(path, field.name), has_statistics=has_statistics)


def _proven(file: RawAction, time: _Time) -> _Proven:
    if time.in_files[0] in (file.get("partitionValues") or {}):
        return _ALL  # it is not in the file
    if not time.has_statistics:
        return _NOTHING
    if is_all_null(file, time.in_files):
        return _ALL
    limits = limits_text(file, time.in_files)
    if limits is None:
        return _NOTHING
    try:
        return _by_dates(*limits) if time.is_date else _by_times(*limits)
    except ValueError:
        return _NOTHING


def _by_dates(*limits: str) -> _Proven:
    """Return what the limits of a DATE column prove. Raises ValueError."""
    is_new = all(_DATE_TEXT.fullmatch(limit) and date.fromisoformat(limit) >= _FIRST_DATE for limit in limits)
    return _ALL if is_new else _NOTHING


def _by_times(*limits: str) -> _Proven:
    """Return what the limits of a TIMESTAMP column prove. Raises ValueError."""
    if not all(map(_TIME_TEXT.match, limits)):
        return _NOTHING
    times = [datetime.fromisoformat(limit) for limit in limits]
    is_new = all((time if time.tzinfo else time.replace(tzinfo=_EASTMOST)) >= _FIRST_TIME for time in times)
    return _Proven(is_new=is_new, is_within=is_new and all(time.year <= _LAST_YEAR for time in times))


def _doubt(file: RawAction, footer: _Footer | None, time: _Time, proven: _Proven, *, by_id: bool) -> str | None:
    """Return why a column in a file may be read as other values, or None.

    ``by_id``: a file may have other names for columns than the table. ``footer``: None if it cannot be read from here.
    """
    column, path = f"column {time.path}", unquote(str(file["path"]))
    within = f"and nothing says that its times are between 1900 and {_LAST_YEAR}; all others would be read as wrong ones"
    new = f"and nothing says that its {'dates are later than 1582-10-15' if time.is_date else 'times are later than 1900'}"
    if footer is None:
        return f"how {column} lies in {path} is not known, as its footer cannot be read from here, {new if time.is_date else within}"
    if not time.is_date and not proven.is_within and _is_int96(footer, time, by_id=by_id):
        return f"{column} is INT96 in {path}, {within}"
    if footer.is_old_calendar and not proven.is_new:
        return f"{column} may be of the calendar that Spark had before 3.0 in {path}, {new}"
    return None


def _is_int96(footer: _Footer, time: _Time, *, by_id: bool) -> bool:
    """Return whether it is, or may be. A name in the files may have dots itself."""
    name = time.in_files[0]
    return any(by_id or path == name or path.startswith(f"{name}.") for path in footer.int96)


def _footer_of(store: ReadStore, file: RawAction) -> _Footer | None:
    """Return what the file's footer says; None if it cannot be read from here."""
    path = unquote(str(file["path"]), errors="surrogateescape")
    if _SCHEME.match(path):  # of another table: a shallow clone
        return None
    key = (store.location.uri, path, int(file.get("modificationTime") or 0))
    if key not in _footers:
        try:
            found = _read_footer(store, path)
        except (ObjectMissing, ValueError):  # pyarrow's errors are ValueErrors
            return None
        if len(_footers) >= _MOST_FOOTERS:
            _footers.clear()
        _footers[key] = found
        return found
    return _footers.get(key)


def _read_footer(store: ReadStore, path: str) -> _Footer:
    import pyarrow.parquet as parquet

    with store.open_random(path) as source:
        footer = parquet.read_metadata(source)
    columns = [footer.schema.column(number) for number in range(len(footer.schema))]
    int96 = tuple(str(column.path) for column in columns if column.physical_type == "INT96")
    metadata = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in (footer.metadata or {}).items()}
    return _Footer(int96, _is_old_calendar(metadata, str(footer.created_by or "")))


def _is_old_calendar(metadata: Mapping[str, str], created_by: str) -> bool:
    """Return whether a file's dates and times are of the old calendar, or may be. ``metadata``: the key-value metadata of its footer."""
    if _LEGACY in metadata:
        return True
    if _SPARK not in metadata:
        return created_by.startswith("parquet-mr")  # Spark 2, or Hive
    major = metadata[_SPARK].partition(".")[0]
    return not (major.isascii() and major.isdigit() and int(major) >= _FIRST_NEW_SPARK)
