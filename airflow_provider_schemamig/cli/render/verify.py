"""``schemamig verify`` for people: what is broken first, with rows, files and the commits that wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from airflow_provider_schemamig.cli.render.common import print_indented, table_of


def show_verified(to: Console, document: Mapping[str, Any]) -> None:
    for finding in document["findings"]:
        _show_finding(to, finding)
    if document["kept"]:
        table = table_of("collection", "element", "kept at version>")
        for item in document["kept"]:
            table.add_row(Text(item["collection"], style="cyan"), item["element"], str(item["version"]))
        to.print(table)
    for item in document["unasked"]:
        what = f"{item['collection']}  {item['element'] or ''}".rstrip()
        to.print(Text(f"not asked  {what}: {item['reason']}", style="yellow"))
    if not document["findings"] and all(item["element"] for item in document["unasked"]):
        to.print(Text("Nothing is broken."))


def _show_finding(to: Console, finding: Mapping[str, Any]) -> None:
    rows = "" if finding["rows"] is None else f"{finding['rows']:,} row(s): "
    what = f"  {finding['element']}: {rows}{finding['text']} (condition {finding['condition']})"
    to.print(Text.assemble(("broken  ", "bold red"), (finding["collection"], "cyan"), what))
    for commit in finding["commits"]:
        print_indented(to, Text(f"version {commit['version']}, {commit['operation']}, {commit['user_metadata'] or 'no user metadata'}"))
    for file in finding["files"]:
        print_indented(to, Text(file, style="dim"))
    for row in finding["sample"]:
        print_indented(to, Text(row, style="dim"))
