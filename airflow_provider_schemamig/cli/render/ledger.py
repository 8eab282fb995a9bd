"""The ledger's rows, sizes and findings for people; and rows as text to paste from or to load."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from rich.text import Text

from airflow_provider_schemamig.cli.render.common import print_indented, show_facts, show_notes, table_of
from airflow_provider_schemamig.core.jsonable import canonical

if TYPE_CHECKING:
    from rich.console import Console

_COLUMNS = ("collection", "key", "value", "ts", "diff")


def show_dump(to: Console, document: Mapping[str, Any], *, current: bool) -> None:
    """Print one line an update. Long values are cut so that a line fits; ``--format jsonl`` gives them complete, to be pasted."""
    what = "row(s) that stand at" if current else "update(s) up to"
    to.print(Text(f"{len(document['rows']):,} {what} ledger version {document['version']}", style="bold"))
    table = table_of("ts>", "diff>")
    table.expand = True
    table.add_column("collection", style="cyan", no_wrap=True)
    table.add_column("key", no_wrap=True)
    table.add_column("value", no_wrap=True, overflow="ellipsis", ratio=1)
    for row in document["rows"]:
        table.add_row(str(row["ts"]), f"{row['diff']:+d}", row["collection"], row["key"], row["value"])
    to.print(table)


def write_jsonl(file: IO[str], document: Mapping[str, Any]) -> None:
    """Write one JSON object a line. Key and value stand in it as they are stored, so both can be pasted into ``ledger edit``."""
    for row in document["rows"]:
        fields = (f'"collection":{json.dumps(row["collection"])}', _member("key", row["key"]), _member("value", row["value"]))
        file.write(f'{{{",".join(fields)},"ts":{row["ts"]},"diff":{row["diff"]}}}\n')


def write_csv(file: IO[str], document: Mapping[str, Any]) -> None:
    """Write the ledger's own columns with a header, as any SQL engine loads them; key and value are their stored texts."""
    writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(document["rows"])


def _member(name: str, text: str) -> str:
    """Return the stored text itself; a damaged one, which is no canonical JSON, as a string under another name."""
    try:
        is_canonical = canonical(json.loads(text, parse_constant=_no_constant)) == text
    except (ValueError, RecursionError):
        is_canonical = False
    return f'"{name}":{text}' if is_canonical else f'"damaged_{name}":{json.dumps(text)}'


def _no_constant(name: str) -> None:
    """Refuse NaN and the infinities, which are no JSON."""
    raise ValueError(name)


def show_findings(to: Console, findings: Sequence[Mapping[str, Any]]) -> None:
    if not findings:
        to.print(Text("The ledger is sound.", style="green"))
        return
    to.print(Text(f"{len(findings)} finding(s)", style="bold red"))
    for finding in findings:
        to.print()
        to.print(Text.assemble((finding["code"], "bold"), "  ", (finding["where"], "cyan")))
        print_indented(to, Text(finding["text"]))
        print_indented(to, Text.assemble(("next: ", "bold"), finding["next"]))


#: What people call a sum of ``ledger size``: an update puts or deletes a row, and the rows are what stands now.
_SIZES = {
    "version": "ledger version",
    "since": "updates since version",
    "rows": "updates",
    "live_rows": "rows",
    "text_bytes": "bytes of updates",
    "data_files": "data files",
    "data_bytes": "bytes of data files",
    "log_files": "log files",
}


def show_size(to: Console, document: Mapping[str, Any]) -> None:
    """Print the sums, then those of each collection, then how the ledger grew."""
    show_facts(to, {_SIZES[name]: value for name, value in document.items() if not isinstance(value, list | dict)})
    to.print()
    table = table_of("collection", "updates>", "rows>", "bytes of updates>", "bytes of rows>")
    for item in document["collections"]:
        table.add_row(item["collection"], *(f"{item[name]:,}" for name in ("rows", "live_rows", "text_bytes", "live_bytes")))
    to.print(table)
    to.print()
    table = table_of("up to version>", "release", "updates>", "bytes>")
    for item in document["growth"]:
        table.add_row(f"{item['until']:,}", item["release"] or "", f"{item['rows']:,}", f"{item['text_bytes']:,}")
    to.print(table)
    gone = document["compaction"]
    to.print()
    to.print(
        f"`schemamig ledger compact` would take away {gone['rows']:,} update(s), {gone['text_bytes']:,} bytes of text, "
        f"{gone['data_files']:,} data file(s)."
    )


def show_edit(to: Console, document: Mapping[str, Any]) -> None:
    """Print the row before and after, uncut: pasting the first goes back."""
    changed = f"written as ledger version {document['version']}" if document["changed"] else "nothing to do"
    to.print(Text.assemble((f"{document['collection']} {document['key']}", "cyan"), f"  {changed}"))
    if document["changed"]:
        for text in document["before"] or ["no row"]:
            to.print(Text.assemble(("before  ", "dim"), text), soft_wrap=True)
        to.print(Text.assemble(("after   ", "dim"), document["after"] or "no row"), soft_wrap=True)
    for sign in document["signs_of_life"]:
        to.print(Text.assemble(("forced  ", "yellow"), sign))
    for finding in document["findings"]:
        to.print(Text.assemble(("forced  ", "yellow"), f"{finding['code']} at {finding['where']}: {finding['text']}"))
    show_notes(to, document["notes"])


def show_format_upgrade(to: Console, document: Mapping[str, Any]) -> None:
    """Print the document of ``ledger upgrade``."""
    if not document["steps"]:
        to.print(f"The ledger has format {document['to']} already; nothing to do.")
    for step in document["steps"]:
        to.print(f"Format {step['from']} -> {step['to']}: {step['rows']} row(s), as ledger version {step['version']}")
        to.print(f"  {step['title']}", style="dim")
    for note in document["notes"]:
        to.print(f"note: {note}", style="yellow")
