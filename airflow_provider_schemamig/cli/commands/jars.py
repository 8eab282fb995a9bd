"""``schemamig jars``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_provider_schemamig.cli.options import JsonOption
from airflow_provider_schemamig.cli.output import Answer, Exit, answered

if TYPE_CHECKING:
    from rich.console import Console


@answered
def jars(
    get: Annotated[bool, typer.Option("--fetch", help="Fetch what is missing; the one thing here that takes a network.")] = False,
    as_json: JsonOption = False,
) -> Answer:
    """Say where the JARs for Spark belong (Delta's, and schemamig's for S3) and whether they are there. Exit 3: not all of them.

    Only work on rows needs them. SCHEMAMIG_JARS names another folder.
    """
    from airflow_provider_schemamig.core import commands
    from airflow_provider_schemamig.core.spark.jars import JARS, jars_folder

    folder = jars_folder().absolute()
    fetched = commands.fetch_jars(folder) if get else ()
    there = commands.verified_jars(folder)
    missing = [name for name in JARS if name not in there]
    document = {"folder": str(folder), "there": list(there), "missing": missing, "fetched": list(fetched)}

    def show(to: Console) -> None:
        to.print(str(folder), style="bold", soft_wrap=True)
        for name in JARS:
            to.print(f"  {name}  {'fetched' if name in fetched else 'there' if name in there else 'missing, or not the pinned one'}")
        if missing:
            to.print("next: `schemamig jars --fetch` fetches them; SCHEMAMIG_JARS names a folder that has them.")

    return Answer(document, show, Exit.PENDING if missing else Exit.DONE)
