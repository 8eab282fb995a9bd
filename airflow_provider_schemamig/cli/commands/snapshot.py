"""``schemamig snapshot``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_schemamig.cli.options import JsonOption, ReleaseOption, local_path
from airflow_provider_schemamig.cli.output import Answer, answered, show_files

if TYPE_CHECKING:
    from rich.console import Console


@answered
def snapshot(release: ReleaseOption, as_json: JsonOption = False) -> Answer:
    """Freeze schema.sql as snapshots/<version>.sql and update the lock."""
    from airflow_provider_schemamig.core import commands

    written = commands.snapshot_release(local_path(release))
    document = {"version": str(written.version), "files": list(written.files)}
    title = f"{written.version} is frozen" if written.files else f"{written.version} was frozen already"
    if written.replaced:
        title = f"{written.version} is frozen anew, with another schema"

    def show(to: Console) -> None:
        show_files(to, written.files, title)
        if written.replaced:
            to.print(
                f"If an environment is at {written.version} already, it refuses this one: take the old snapshot back "
                "(git checkout), and run `schemamig new TITLE` first."
            )

    return Answer(document, show)
