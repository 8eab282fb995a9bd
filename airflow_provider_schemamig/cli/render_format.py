"""How ``ledger upgrade`` shows what it did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def show_format_upgrade(to: Console, document: Mapping[str, Any]) -> None:
    """``document``: that of ``ledger upgrade``."""
    if not document["steps"]:
        to.print(f"The ledger has format {document['to']} already; nothing to do.")
    for step in document["steps"]:
        to.print(f"Format {step['from']} -> {step['to']}: {step['rows']} row(s), as ledger version {step['version']}")
        to.print(f"  {step['title']}", style="dim")
    for note in document["notes"]:
        to.print(f"note: {note}", style="yellow")
