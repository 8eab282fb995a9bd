"""A real project's schema as releases: 124 migrations of Airflow's metadata database, 2.6.2 to 3.3.0 (tests/data/airflow_history.jsonl.gz).

Each of its 14 releases becomes a release of ours: types mapped to Spark's, steps chosen as a careful author would. What metadata alone can
do is an evolution with its drops and renames named (renames from the original migrations), all else a replacement, or a removal and a
new collection where the table was renamed too. Used by unit and integration tests.
"""

from __future__ import annotations

import functools
import gzip
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_provider_schemamig.core.names import CollectionName, ColumnPath
from airflow_provider_schemamig.core.schema.changes import Cost
from airflow_provider_schemamig.core.schema.diff.compare import diff
from airflow_provider_schemamig.core.schema.model import Declaration, Field, Primitive
from airflow_provider_schemamig.core.schema.sql import quote, type_sql
from tests.support.product import Product

DATA = Path(__file__).parent / "data" / "airflow_history.jsonl.gz"

_TYPES = {
    "BIGINT": "bigint",
    "BLOB": "binary",
    "BOOLEAN": "boolean",
    "CHAR": "string",
    "DATETIME": "timestamp",
    "FLOAT": "double",
    "INTEGER": "int",
    "JSON": "string",
    "TEXT": "string",
    "TIMESTAMP": "timestamp",
    "VARCHAR": "string",
}

Declarations = dict[CollectionName, Declaration]


@dataclass
class _Table:
    """A table on its way through one release: what it and its columns were called in the release before (None: they were not there)."""

    source: CollectionName | None
    columns: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class HistoricRelease:
    version: str
    declarations: Declarations
    #: The calls inside STEPS = [...].
    steps: tuple[str, ...]


@functools.cache
def releases() -> tuple[HistoricRelease, ...]:
    """All 14 releases, oldest first."""
    found: list[HistoricRelease] = []
    before: Declarations = {}
    for version, revisions in _by_release():
        tables = {name: _Table(name, {f.name: f.name for f in declaration.fields}) for name, declaration in before.items()}
        for revision in revisions:
            _follow(tables, revision)
        after = _declarations(revisions[-1]["schema"])
        found.append(HistoricRelease(version, after, tuple(_steps(before, after, tables)) if before else ()))
        before = after
    return tuple(found)


def write_history(folder: Path, upto: str | None = None) -> dict[str, Path]:
    """Write every release, or those up to ``upto``, below ``folder``: version -> its release folder as it was when it was the head."""
    product = Product(folder, "airflow")
    paths: dict[str, Path] = {}
    for release in releases():
        paths[release.version] = product.release(release.version, schema_sql(release.declarations.values()), ", ".join(release.steps))
        if release.version == upto:
            break
    return paths


def schema_sql(declarations: Iterable[Declaration]) -> str:
    """schema.sql of plain columns."""
    return "\n".join(_create_table(declaration) for declaration in declarations)


def _create_table(declaration: Declaration) -> str:
    columns = [f"  {quote(f.name)} {type_sql(f.type)}{'' if f.nullable else ' NOT NULL'}" for f in declaration.fields]
    return f"CREATE TABLE {declaration.name} (\n" + ",\n".join(columns) + "\n);\n"


def _by_release() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    with gzip.open(DATA, "rt", encoding="utf-8") as lines:
        revisions = [json.loads(line) for line in lines]
    for version in dict.fromkeys(revision["release"] for revision in revisions):
        yield version, [revision for revision in revisions if revision["release"] == version]


def _name(table: str) -> CollectionName:
    return CollectionName(table.lstrip("_"))  # a collection's name begins with a letter


def _declarations(schema: dict[str, list[list[Any]]]) -> Declarations:
    return {_name(table): Declaration(_name(table), tuple(map(_field, columns))) for table, columns in sorted(schema.items())}


def _field(column: list[Any]) -> Field:
    name, sql_type, nullable = column
    kind = re.sub(r"\(.*\)", "", sql_type)
    return Field(name, Primitive(_TYPES[kind]), bool(nullable))


def _follow(tables: dict[CollectionName, _Table], revision: dict[str, Any]) -> None:
    """Carry identities over one original migration."""
    after = _declarations(revision["schema"])
    for kind, subject, detail in revision["ops"]:
        if kind == "rename_table" and _name(subject) in tables and _name(detail) not in tables:
            tables[_name(detail)] = tables.pop(_name(subject))
        elif kind == "rename_column" and subject is not None and detail[0] in tables[_name(subject)].columns:
            columns = tables[_name(subject)].columns
            columns[detail[1]] = columns.pop(detail[0])
        elif kind == "drop_column" and subject is not None:
            tables[_name(subject)].columns.pop(detail, None)
    for name in set(tables) - set(after):
        del tables[name]
    for name, declaration in after.items():
        columns = tables.setdefault(name, _Table(None)).columns
        present = {f.name for f in declaration.fields}
        tables[name].columns = {column: columns.get(column) for column in present}


def _steps(before: Declarations, after: Declarations, tables: dict[CollectionName, _Table]) -> Iterator[str]:
    kept = set()
    for name, new in after.items():
        source = tables[name].source
        if source is None or source not in before:
            continue
        step = _step(before[source], new, tables[name])
        if step is None and source != name:
            continue  # renamed and more than evolved: the old one is removed, the new one created
        kept.add(source)
        if step:
            yield step
    for name in before:
        if name not in kept:
            yield f'removal("{name}")'


def _step(old: Declaration, new: Declaration, table: _Table) -> str | None:
    """The step, empty if none is needed, None if the table was renamed and cannot be evolved."""
    renames = {ColumnPath(was): now for now, was in table.columns.items() if was is not None and was != now}
    found = diff(old, new, renames)
    if found.outcome == Cost.NONE and old.name == new.name:
        return ""
    if found.outcome.rank <= Cost.INSTANT.rank and not _begins_anew(old, table):
        return _evolution(old, new, renames, found.dropped)
    return f'replacement("{new.name}")' if old.name == new.name else None


def _begins_anew(old: Declaration, table: _Table) -> bool:
    """Whether a new column took a dropped one's name, which the two declarations alone would not show."""
    kept = set(table.columns.values())
    return any(f.name not in kept and f.name in table.columns and table.columns[f.name] is None for f in old.fields)


def _evolution(old: Declaration, new: Declaration, renames: dict[ColumnPath, str], drops: tuple[ColumnPath, ...]) -> str:
    arguments = [json.dumps(new.name)]
    if renames:
        arguments.append(f"rename={json.dumps(dict(sorted(renames.items())))}")
    if drops:
        arguments.append(f"drop={json.dumps(list(drops))}")
    if old.name != new.name:
        arguments.append(f"renamed_from={json.dumps(old.name)}")
    return f"evolution({', '.join(arguments)})"
