"""``make bench``: what the product promises about speed, measured now, next to a baseline. Prints a table; never a test."""

from __future__ import annotations

import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import dag, ledger, object_store, online, page, peers, release, release_test, replicas, rewrite, scale, schema_only, streams
from bench.tools.table import texts

#: Name on the command line -> the benchmark, an iterator of rows.
BENCHMARKS = {
    "peers": peers.side_by_side,
    "plan": schema_only.plan_unchanged,
    "upgrade": schema_only.upgrade_many,
    "far_away": object_store.far_away,
    "scale": scale.many_collections,
    "files": schema_only.evolve_many_files,
    "dags": schema_only.import_dags,
    "dag": dag.run_at_scale,
    "jvm": schema_only.no_jvm,
    "check": release.check_many,
    "release_test": release_test.take_paths,
    "ledger": ledger.open_long_history,
    "upgrades": ledger.after_many_upgrades,
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
    "page": page.page,
}


#: ``peers`` needs the package registry, which nothing else does; ``upgrades`` takes many minutes.
ON_DEMAND = frozenset({"peers", "upgrades"})
#: Of each benchmark, anew each time: a figure that varies is the median, with its spread.
ROUNDS = 3


def measured(names: list[str], folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table, as text."""
    for name in names:
        rounds = []
        for number in range(1, ROUNDS + 1):
            print(f"running {name}, {number} of {ROUNDS} ...", file=sys.stderr, flush=True)
            place = folder / name
            place.mkdir()
            rounds.append(list(BENCHMARKS[name](place)))
            shutil.rmtree(place)
        yield from map(texts, zip(*rounds, strict=True))


def main(arguments: list[str]) -> int:
    names = arguments or [name for name in BENCHMARKS if name not in ON_DEMAND]
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"unknown benchmark {unknown[0]}; there are: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    table = Table(title=f"schemamig bench, Python {platform.python_version()}, {platform.machine()}")
    for column in ("what", "measured", "baseline", "ratio", "goal"):
        table.add_column(column, overflow="fold")
    with tempfile.TemporaryDirectory() as folder:
        for row in measured(names, Path(folder)):
            table.add_row(*row)
    Console(width=150).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
