"""``make bench``: what the product promises about speed, measured now, next to a baseline. Prints a table; never a test."""

from __future__ import annotations

import platform
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import ledger, online, release, release_test, replicas, rewrite, schema_only, streams

#: Name on the command line -> the benchmark, an iterator of rows.
BENCHMARKS = {
    "plan": schema_only.plan_unchanged,
    "upgrade": schema_only.upgrade_many,
    "files": schema_only.evolve_many_files,
    "dags": schema_only.import_dags,
    "jvm": schema_only.no_jvm,
    "check": release.check_many,
    "release_test": release_test.take_paths,
    "ledger": ledger.open_long_history,
    "copy": rewrite.copy,
    "tail": rewrite.tail,
    "block": rewrite.block,
    "reader": rewrite.reader,
    "schema_status": replicas.status,
    "replicate": streams.rows_brought,
    "lag": streams.lag,
    "idle": streams.idle,
    "online_check": online.check,
    "backfill": online.backfill,
}


def rows(names: list[str], folder: Path) -> Iterator[schema_only.Row]:
    for name in names:
        print(f"running {name} ...", file=sys.stderr, flush=True)
        place = folder / name
        place.mkdir()
        yield from BENCHMARKS[name](place)


def main(arguments: list[str]) -> int:
    names = arguments or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"unknown benchmark {unknown[0]}; there are: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    table = Table(title=f"schemamig bench, Python {platform.python_version()}, {platform.machine()}")
    for column in ("what", "measured", "baseline", "ratio", "goal"):
        table.add_column(column, overflow="fold")
    with tempfile.TemporaryDirectory() as folder:
        for row in rows(names, Path(folder)):
            table.add_row(*row.cells())
    Console(width=150).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
