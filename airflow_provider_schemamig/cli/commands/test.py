"""``schemamig test``."""

from __future__ import annotations

import importlib.util
import shlex
import time
from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_schemamig.cli.options import (
    DEFAULT_SPARK,
    JsonOption,
    ReleaseOption,
    checked_spark,
    local_path,
    spark_at,
    spark_option,
)
from airflow_provider_schemamig.cli.output import Answer, Exit, answered, failure_document
from airflow_provider_schemamig.cli.progress import watched
from airflow_provider_schemamig.exceptions import error_of

if TYPE_CHECKING:
    from rich.console import Console

    from airflow_provider_schemamig.core.progress import Listener
    from airflow_provider_schemamig.core.upgrade.prepare.fill import Jobs


NO_SPARK = "none"
_SparkOrNone = Annotated[str, spark_option(lambda url: url if url == NO_SPARK else checked_spark(url))]


@answered
def test(
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
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed that chooses where steps are interrupted.")] = 0,
    spark: _SparkOrNone = DEFAULT_SPARK,
    as_json: JsonOption = False,
) -> Answer:
    """Take every upgrade path that users can take, on real tables in a temporary folder. `--spark none`: without Spark."""
    from airflow_provider_schemamig.core import commands
    from airflow_provider_schemamig.core.testing.report import document, failures
    from airflow_provider_schemamig.core.testing.workspace import workplace

    if released is not None and tags is not None:
        raise typer.BadParameter("give --released or --tags, not both.", param_hint="'--tags'")
    started = time.monotonic()
    with workplace() as place, watched() as listen:
        found = commands.rehearsal(local_path(release), place, jobs=_jobs(spark, listen), seed=seed, released=released, tags=tags)
        results = commands.run_all(found, found.paths if path is None else found.find(path), listen)
    options = {"--release": release, "--released": released, "--tags": tags, "--seed": str(seed)}
    command = " ".join(["schemamig test", *(f"{name} {shlex.quote(value)}" for name, value in options.items() if value is not None)])
    errors = failures(found, results, command)
    answer = document(found, results, time.monotonic() - started)

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.test import show_test

        show_test(to, answer, errors)

    if errors:
        return Answer({**failure_document(error_of(errors)), **answer}, show, Exit.REFUSED)
    return Answer(answer, show, Exit.PENDING if answer["counts"]["needs_spark"] else Exit.DONE)


def _jobs(url: str, listen: Listener) -> Jobs | None:
    """Return None if Spark is not wanted, or if the packages of the extra `spark` are not installed."""
    embedded = url.startswith("local")
    if url == NO_SPARK or (embedded and importlib.util.find_spec("pyspark") is None):
        return None
    return spark_at(url, listen)
