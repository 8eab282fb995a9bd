"""The ages of files for people: one line a collection and schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from airflow_provider_schemamig.cli.render.common import show_notes, table_of

if TYPE_CHECKING:
    from rich.console import Console


def show_compaction(to: Console, document: Mapping[str, Any], *, rewritten: bool) -> None:
    """Print the files by schema, and with ``rewritten`` what was done about them."""
    table = table_of("collection", "schema>", "files>", "rows>", "MiB>", "")
    for item in document["collections"]:
        for number, share in enumerate(item["debt"]):
            table.add_row(
                Text(item["collection"] if number == 0 else "", style="cyan"),
                str(share["schema_id"]),
                f"{share['files']:,}",
                "?" if share["rows"] is None else f"{share['rows']:,}",
                f"{share['bytes'] / 2**20:,.1f}",
                Text("today's", style="green") if share["schema_id"] == item["schema_id"] else "",
            )
    to.print(table)
    old = sum(item["old_files"] for item in document["collections"])
    if not rewritten:
        to.print(f"{old:,} file(s) have an older schema.")
        return
    done, batches = (sum(item[key] for item in document["collections"]) for key in ("rewritten", "batches"))
    to.print(f"{done:,} file(s) rewritten in {batches:,} batch(es)." if done else "Nothing to do.")
    show_notes(to, document["notes"])
