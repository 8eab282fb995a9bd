"""The ledger's rows and findings for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console


def show_dump(to: Console, document: Mapping[str, Any]) -> None:
    """One line an update; long values are cut on a line, ``--json`` has them whole."""
    to.print(Text(f"ledger version {document['version']}", style="bold"))
    table = Table(box=None, pad_edge=False, header_style="dim", expand=True)
    table.add_column("ts", justify="right", no_wrap=True)
    table.add_column("diff", justify="right", no_wrap=True)
    table.add_column("collection", style="cyan", no_wrap=True)
    table.add_column("key", no_wrap=True)
    table.add_column("value", no_wrap=True, overflow="ellipsis", ratio=1)
    for row in document["rows"]:
        table.add_row(str(row["ts"]), f"{row['diff']:+d}", row["collection"], row["key"], row["value"])
    to.print(table)


def show_findings(to: Console, findings: Sequence[Mapping[str, str]]) -> None:
    if not findings:
        to.print(Text("The ledger is sound.", style="green"))
        return
    to.print(Text(f"{len(findings)} finding(s)", style="bold red"))
    for finding in findings:
        to.print(Text.assemble((finding["code"], "bold"), "  ", (finding["where"], "cyan"), f"  {finding['text']}"))
