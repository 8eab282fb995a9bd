"""``schemamig verify`` for people: what is broken first, with rows and the commit that brought them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from airflow_provider_schemamig.cli.render import print_indented, table_of


def show_keys(to: Console, document: Mapping[str, Any]) -> None:
    for finding in document["findings"]:
        what = f"  {finding['key']}: {finding['rows']:,} row(s)"
        to.print(Text.assemble(("broken  ", "bold red"), (finding["collection"], "cyan"), what))
        if finding["version"] is not None:
            by = finding["user_metadata"] or "no user metadata"
            print_indented(to, Text(f"version {finding['version']}, {finding['operation']}, {by}"))
        for row in finding["sample"]:
            print_indented(to, Text(row, style="dim"))
    if document["kept"]:
        table = table_of("collection", "key", "kept up to version>")
        for item in document["kept"]:
            table.add_row(Text(item["collection"], style="cyan"), item["key"], str(item["version"]))
        to.print(table)
    for item in document["unasked"]:
        why = "its columns or the table it refers to are not there"
        to.print(Text(f"not asked  {item['collection']}  {item['key']}: {why}", style="yellow"))
    if not any(document.values()):
        to.print(Text("No collection has a key."))
