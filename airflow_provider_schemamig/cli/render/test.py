"""How a test of a release's upgrade paths went, as a person likes to read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from airflow_provider_schemamig.cli.render.common import print_indented, show_error
from airflow_provider_schemamig.exceptions import error_of

if TYPE_CHECKING:
    from rich.console import Console

    from airflow_provider_schemamig.exceptions import SchemamigError

_WHAT = {
    "new": "a new environment at the head, compared with an upgraded one",
    "step": "one version to the next; interrupted and continued; rolled back",
    "direct": "each version to the head in one go; rolled back",
    "released": "each release to each later one, with that one's folder",
}
_STYLES = {"passed": "green", "failed": "bold red", "needs_spark": "yellow"}
#: More paths than this of one kind are one line, as long as they passed.
_SHOWN = 12


def show_test(to: Console, document: Mapping[str, Any], errors: Sequence[SchemamigError]) -> None:
    """Print a table of the paths, then the notes, then what failed."""
    counts = document["counts"]
    to.print(
        Text(f"{document['name']} {document['version']}: {len(document['versions'])} version(s), seed {document['seed']}", style="bold")
    )
    to.print(_table(document["paths"]))
    for note in document["notes"]:
        print_indented(to, Text(note))
    parts = [f"{counts[verdict]} {verdict.replace('_', ' ')}" for verdict in _STYLES if counts[verdict] or verdict == "passed"]
    to.print(Text(f"{', '.join(parts)} in {document['seconds']:.1f} s", style=_STYLES[_worst(counts)]))
    if counts["needs_spark"]:
        to.print("next: run it with `--spark local[2]` where the extra `spark` is installed.")
    if errors:
        to.print()
        show_error(to, error_of(errors))


def _worst(counts: Mapping[str, int]) -> str:
    return "failed" if counts["failed"] else "needs_spark" if counts["needs_spark"] else "passed"


def _table(paths: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("path", "verdict", "what"):
        table.add_column(column, overflow="fold")
    for column in ("rows", "seconds"):
        table.add_column(column, justify="right")
    for kind, what in _WHAT.items():
        alike = [path for path in paths if path["kind"] == kind]
        quiet = [path for path in alike if path["verdict"] == "passed" and not path["notes"]]
        if len(quiet) > _SHOWN:
            seconds = sum(path["seconds"] for path in quiet)
            table.add_row(f"{len(quiet)} paths", Text("passed", _STYLES["passed"]), what, _rows(quiet), f"{seconds:.1f}")
            alike = [path for path in alike if path not in quiet]
        for path in alike:
            about = "; ".join(path["notes"]) or what
            verdict = Text(path["verdict"].replace("_", " "), _STYLES[path["verdict"]])
            table.add_row(_way(path), verdict, about, str(path["rows"]), f"{path['seconds']:.1f}")
    return table


def _way(path: Mapping[str, Any]) -> str:
    return f"{path['from'] or 'new'}..{path['to']}"


def _rows(paths: Sequence[Mapping[str, Any]]) -> str:
    return f"up to {max(path['rows'] for path in paths):,}"
