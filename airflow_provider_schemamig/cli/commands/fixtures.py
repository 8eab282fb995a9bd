"""``schemamig fixtures``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_schemamig.cli.options import JsonOption, ReleaseOption, local_path
from airflow_provider_schemamig.cli.output import Answer, answered

if TYPE_CHECKING:
    from rich.console import Console

    from airflow_provider_schemamig.core.testing.rows.fixtures import WrittenFixtures


@answered
def fixtures(release: ReleaseOption, as_json: JsonOption = False) -> Answer:
    """Write the rows that `test` carries from version to version: fixtures/<version>/<collection>.jsonl."""
    from airflow_provider_schemamig.core import commands

    loaded = commands.load_checked(local_path(release))
    written = commands.write_fixtures(loaded)
    document = {"version": str(loaded.version), "files": list(written.files), "beyond": dict(written.beyond)}
    return Answer(document, lambda to: _show_written(to, written))


def _show_written(to: Console, written: WrittenFixtures) -> None:
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
