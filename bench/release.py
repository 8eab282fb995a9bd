"""Benchmarks of release folders: how long the author of a long history waits for ``check``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.release.folder.lock import digest, module_file, must_be_locked, render_lock, snapshot_file
from bench.tools.measure import run_warm
from bench.tools.table import Row, cell, usage_cell

SCHEMAMIG = str(Path(sys.executable).with_name("schemamig"))
VERSIONS, COLLECTIONS, COLUMNS = 1_000, 50, 20


def check_many(folder: Path) -> Iterator[Row]:
    """``check`` of 1,000 versions of 50 collections, each of which changes one collection."""
    history = folder / "history"
    write_history(history, VERSIONS)
    write_history(folder / "one", 1)
    many, one = (run_warm([SCHEMAMIG, "check", "--release", str(path), "--json"]) for path in (history, folder / "one"))
    assert len(json.loads(many.output)["versions"]) == VERSIONS
    size = sum(path.stat().st_size for path in history.rglob("*") if path.is_file())
    yield Row(
        f"check, {VERSIONS:,} versions x {COLLECTIONS} collections",
        usage_cell(many),
        cell("1 version: {:.2f} s", one.wall_s),
        cell("{:.0f} MiB/s", size / many.cpu_s / 1024 / 1024),
        "5 s",
    )


def write_history(folder: Path, versions: int, collections: int = COLLECTIONS) -> None:
    """A release folder with a long history: every version drops a column of one of its collections and adds another."""
    columns = {table: [f"c{table}_{number}" for number in range(COLUMNS)] for table in range(collections)}
    files: dict[str, str] = {}
    for number in range(versions):
        version, table = Version(1, number, 0), number % collections
        if number:
            dropped, *kept = columns[table]
            columns[table] = [*kept, f"added_{number}"]
            files[module_file(version)] = _MODULE.format(table=table, dropped=dropped)
        files[snapshot_file(version)] = "\n".join(_create(table, names) for table, names in columns.items())
    _write(folder, files, Version(1, versions - 1, 0))


_MODULE = """\
\"\"\"t{table} gets a column for another.

Why: it is version after version of a benchmark.
\"\"\"

from airflow_provider_schemamig import evolution

STEPS = [evolution("t{table}", drop=["{dropped}"])]
"""


def _create(table: int, names: list[str]) -> str:
    columns = "".join(f"  {name} {_KINDS[number % len(_KINDS)]},\n" for number, name in zip(map(_number, names), names, strict=True))
    return f"CREATE TABLE t{table} (\n  id BIGINT NOT NULL,\n{columns}  PRIMARY KEY (id)\n);"


_KINDS = ("INT", "STRING", "DECIMAL(10,2)", "TIMESTAMP", "STRUCT<a: INT, b: ARRAY<STRING>>", "BIGINT COMMENT 'how many; of what'")


def _number(name: str) -> int:
    return int(name.rpartition("_")[2])


def _write(folder: Path, files: dict[str, str], head: Version) -> None:
    first = Version(1, 0, 0)
    lock = {file: digest(text.encode()) for file, text in files.items() if must_be_locked(file, first, head)}
    written = {
        **files,
        "release.toml": f'name = "history"\nversion = "{head}"\nmin_version = "{first}"\n',
        "schema.sql": files[snapshot_file(head)],
        "snapshots.lock": render_lock(lock),
    }
    for name in ("snapshots", "migrations"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for file, text in written.items():
        (folder / file).write_text(text)
