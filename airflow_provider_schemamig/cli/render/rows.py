"""Work on rows for people: how far it is, what was said to it, whose history is kept, and who got through a seal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from airflow_provider_schemamig.cli.render.common import table_of
from airflow_provider_schemamig.core.times import minute_of
from airflow_provider_schemamig.core.upgrade.status import control_words
from airflow_provider_schemamig.visible import visible

if TYPE_CHECKING:
    from rich.console import Console

Document = Mapping[str, Any]


def progress_table(progress: Sequence[Document]) -> Table:
    """Make a table with one line for each collection and stage of an open generation."""
    table = table_of("collection", "stage", "done>", "rows>", "rows/s>", "left>", "as of")
    for item in progress:
        table.add_row(
            Text(item["collection"], style="cyan"),
            item["stage"],
            *progress_cells(item),
            minute_of(item["updated_at"]),
        )
    return table


def progress_cells(item: Document) -> tuple[str, str, str, str]:
    """Return done of total, rows, rows a second, and time left; each is empty where it is not known."""
    return (
        f"{item['done']:,}/{item['total']:,} {item['unit']}",
        f"{item['rows']:,}",
        "" if item["rows_per_second"] is None else f"{item['rows_per_second']:,}",
        "no sign of life" if item["silent"] else "" if item["eta_seconds"] is None else duration(item["eta_seconds"]),
    )


def duration(seconds: float) -> str:
    """Format seconds as ``40 s``, ``12 min``, ``3 h 05 min``."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def show_history(to: Console, entries: Sequence[Document]) -> None:
    """Print a line for each entry of the audit log; a detail too long for it stands below, in one piece to be copied."""
    heads = ("started", "took", "what", "collection", "generation", "outcome", "who")
    rows = [_history_cells(item) for item in entries]
    widths = [max(cell_len(row[index]) for row in (heads, *rows)) for index in range(len(heads))]
    right = {heads.index("took"), heads.index("generation")}
    for row, item in zip((heads, *rows), (None, *entries), strict=True):
        styles = (
            ["dim"] * len(heads) if item is None else ["", "", "", "cyan", "", "green" if item["outcome"] == "done" else "bold red", ""]
        )
        line = Text()
        for index, (cell, width, style) in enumerate(zip(row, widths, styles, strict=True)):
            space = " " * (width - cell_len(cell))
            line.append(f"{space}{cell}" if index in right else f"{cell}{space}", style=style).append("  ")
        detail = "" if item is None else visible(item["detail"])
        beside = cell_len(line.plain) + cell_len(detail) <= to.width
        line.append(detail if beside else "").rstrip()
        to.print(line, soft_wrap=True)
        if not beside:
            to.print(Text(f"    {detail}"), soft_wrap=True)


def _history_cells(item: Document) -> tuple[str, ...]:
    return (
        minute_of(item["started_at"]),
        f"{item['seconds']:.1f} s" if item["seconds"] < 60 else duration(item["seconds"]),
        item["what"],
        item["collection"] or "",
        "" if item["generation"] is None else str(item["generation"]),
        item["outcome"],
        item["who"],
    )


def control_text(control: Document) -> Text:
    """Return what work on rows, or the last step of an online change, has to keep to, in one line."""
    name, state, rest = control_words(control)
    return Text.assemble((name, "cyan"), "  ", (state, "yellow" if control["paused"] else "green"), rest)


def pin_text(pin: Document) -> Text:
    since = f"by {pin['pinned_by']} since {minute_of(pin['pinned_at'])}"
    return Text.assemble(
        ("pin    ", "yellow"), (pin["collection"] or pin["shard"], "cyan"), f"  {pin['hours']} h for {pin['holder']}, {since}"
    )


def touched_texts(retired: Sequence[Document]) -> Iterator[Text]:
    """Yield a line for each old shard that is not as it was left: RESTORE alone gets through a seal."""
    for item in retired:
        what = [] if item["sealed"] else ["its seal is gone"]
        what += [f"{item['foreign_commits']:,} commit(s) of others since it was retired"] if item["foreign_commits"] else []
        if what:
            yield Text.assemble(("drift  ", "bold red"), (item["collection"], "cyan"), f"  old shard {item['shard']}: {', '.join(what)}")
