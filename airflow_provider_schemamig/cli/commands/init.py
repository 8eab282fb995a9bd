"""``schemamig init``."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from airflow_provider_schemamig.cli.options import JsonOption, local_path
from airflow_provider_schemamig.cli.output import Answer, answered, show_files


@answered
def init(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder to make; its name becomes the data product's.")],
    as_json: JsonOption = False,
) -> Answer:
    """Make a release folder at version 1.0.0 that passes check."""
    from airflow_provider_schemamig.core import commands
    from airflow_provider_schemamig.core.storage import Location

    path = local_path(folder)
    name = re.sub(r"[^A-Za-z0-9_-]", "_", path.absolute().name)
    written = commands.init_release(path, name)
    uri = Location.of_files(path).uri
    document = {"uri": uri, "name": name, "version": str(written.version), "files": list(written.files)}
    return Answer(document, lambda to: show_files(to, written.files, f"{name} {written.version} in {path}"))
