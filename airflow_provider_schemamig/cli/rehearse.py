"""``test`` takes every upgrade path of a release folder in throw-away environments, ``fixtures`` writes the rows that it carries along."""

from __future__ import annotations

import importlib.util
import shlex
import time
from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_schemamig.cli.options import DEFAULT_SPARK, JsonOption, ReleaseOption, SparkOption, local_path, spark_at
from airflow_provider_schemamig.cli.output import Answer, Exit, answered, failure_document
from airflow_provider_schemamig.cli.progress import watched
from airflow_provider_schemamig.exceptions import error_of

if TYPE_CHECKING:
    from rich.console import Console

    from airflow_provider_schemamig.core.testing.rows.fixtures import Written
    from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs

app = typer.Typer()
PANEL = "Write a release"
NO_SPARK = "none"


@app.command(rich_help_panel=PANEL)
@answered
def fixtures(release: ReleaseOption, as_json: JsonOption = False) -> Answer:
    """Write the rows that `test` carries from version to version: fixtures/<version>/<collection>.jsonl."""
    from airflow_provider_schemamig.core.release.check import load_checked
    from airflow_provider_schemamig.core.testing.rows.fixtures import write_fixtures

    loaded = load_checked(local_path(release))
    written = write_fixtures(loaded)
    document = {"version": str(loaded.version), "files": list(written.files), "beyond": dict(written.beyond)}
    return Answer(document, lambda to: _show_written(to, written))


@app.command("test", rich_help_panel=PANEL)
@answered
def rehearse(
    release: ReleaseOption,
    path: Annotated[str | None, typer.Option("--path", metavar="A..B", help="Only the paths from A to B.", show_default=False)] = None,
    released: Annotated[
        str | None,
        typer.Option("--released", metavar="LIST|FILE", help="What was released, in the order it came out.", show_default=False),
    ] = None,
    tags: Annotated[
        str | None,
        typer.Option("--tags", metavar="PATTERN", help="The same from git: the tags of releases, e.g. 'v*'.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Where steps are interrupted.")] = 0,
    spark: SparkOption = DEFAULT_SPARK,
    as_json: JsonOption = False,
) -> Answer:
    """Take every upgrade path that users can take, on real tables in a temporary folder. `--spark none`: without Spark."""
    from airflow_provider_schemamig.core.testing.rehearse import rehearsal
    from airflow_provider_schemamig.core.testing.report import document, failures
    from airflow_provider_schemamig.core.testing.run_all import run_all
    from airflow_provider_schemamig.core.testing.workspace import workplace

    if released is not None and tags is not None:
        raise typer.BadParameter("give --released or --tags, not both.", param_hint="'--tags'")
    started = time.monotonic()
    with workplace() as work, watched() as listen:
        found = rehearsal(local_path(release), work, jobs=_jobs(spark), seed=seed, released=released, tags=tags)
        results = run_all(found, found.paths if path is None else found.find(path), listen)
    options = {"--release": release, "--released": released, "--tags": tags, "--seed": str(seed)}
    command = " ".join(["schemamig test", *(f"{name} {shlex.quote(value)}" for name, value in options.items() if value is not None)])
    errors = failures(found, results, command)
    answer = document(found, results, time.monotonic() - started)

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render_test import show_test

        show_test(to, answer, errors)

    if errors:
        return Answer({**failure_document(error_of(errors)), **answer}, show, Exit.REFUSED)
    return Answer(answer, show, Exit.PENDING if answer["counts"]["needs_spark"] else Exit.DONE)


def _jobs(url: str) -> Jobs | None:
    """None without Spark: it was not wanted, or the packages of the extra `spark` are not here."""
    embedded = url.startswith("local")
    if url == NO_SPARK or (embedded and importlib.util.find_spec("pyspark") is None):
        return None
    return spark_at(url)


def _show_written(to: Console, written: Written) -> None:
    to.print(f"{len(written.files)} file(s) written" if written.files else "All fixtures are there", style="bold")
    for file in written.files[:20]:
        to.print(f"  {file}")
    if len(written.files) > 20:
        to.print(f"  and {len(written.files) - 20} more")
    for file, check in written.beyond.items():
        to.print(
            f'  {file} has no rows, the CHECK {check} is beyond the generator: write some, with "generator": "hand" in the first line.'
        )
    to.print("next: commit them, then `schemamig test`.")
