"""Answers as a person likes to read them: errors, outcomes, differences. Rich draws; every fact comes from the JSON document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from airflow_provider_schemamig.cli.console import lines_of
from airflow_provider_schemamig.core.html.moments import back_to
from airflow_provider_schemamig.core.html.render import size
from airflow_provider_schemamig.core.times import minute_of
from airflow_provider_schemamig.exceptions import Conflict, SchemamigError, refusals_of
from airflow_provider_schemamig.visible import visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions

#: How a cost is coloured wherever it stands.
COST_STYLES = {"none": "dim", "instant": "green", "online": "yellow", "rewrite": "red"}


def show_error(to: Console, error: SchemamigError) -> None:
    """Print the code, the collection, the message and the next action of an error. Several refusals are numbered, each complete."""
    refusals = refusals_of(error)
    if len(refusals) < 2:
        head = "conflict" if isinstance(error, Conflict) else "" if error.retryable else "error"  # Ctrl-C is neither
        _show_one(to, head, refusals[0] if refusals else error)
        return
    to.print(Text(f"{len(refusals)} reasons against it:", style="bold red"))
    for number, refusal in enumerate(refusals, start=1):
        to.print()
        _show_one(to, f"{number}.", refusal)


def _show_one(to: Console, head: str, error: SchemamigError) -> None:
    title = Text.assemble((f"{head} " if head else "", "bold red"), (error.code, "bold"))
    if error.subject:
        title.append(f"  {error.subject}", style="cyan")
    to.print(title)
    print_indented(to, Text(_sentence(visible(error.message, lines=error.has_lines), error)))
    print_indented(to, Text.assemble(("next: ", "bold"), visible(error.next_action)))


def print_indented(to: Console, text: Text, by: int = 2) -> None:
    """Print an ``Indented`` text."""
    to.print(Indented(text, by))


@dataclass(frozen=True, slots=True)
class Indented:
    """A text with a hanging indent and nothing after the last word of a line (Rich's Padding would fill the line with spaces)."""

    text: Text
    by: int = 2

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        for line in lines_of(self.text, options.max_width - self.by):
            line.rstrip()
            yield Text(" " * self.by, no_wrap=True, overflow="ignore").append_text(line)


#: Fields of errors that are somebody's names, which stay as they are written.
_NAMES = ("argument", "at", "column", "element", "file", "folder", "name", "path", "place", "uri", "where")


def _sentence(text: str, error: SchemamigError) -> str:
    """Capitalize a message that stands alone, unless it begins with a name: in a log line it follows a collection's name."""
    first = text.split(" ", 1)[0]
    is_name = any(str(getattr(error, field, "")) == first for field in _NAMES)
    return text[:1].upper() + text[1:] if first.isalpha() and not is_name else text


def show_outcome(to: Console, document: Mapping[str, Any], without_stages: str = "") -> None:
    """Print what a task or an upgrade did: where the environment is, what each stage took, what stays open.

    ``without_stages``: what to say where there was none; else the notes, or that there was nothing to do.
    """
    to.print(_heading(document))
    if document["stages"]:
        to.print()
        to.print(_stage_table(document["stages"]))
    elif without_stages or not document["notes"]:
        to.print(Text(without_stages or "Nothing to do."))
    show_pending(to, document["pending"])
    show_notes(to, document["notes"])


def _heading(document: Mapping[str, Any]) -> Text:
    text = way(document["from"], document["to"])
    if document["to"] is not None and document["from"] == document["to"]:
        text = Text.assemble("at ", (document["to"], "bold"))
    if document["generation"] is not None:
        epoch = "" if document["epoch"] is None else f", epoch {document['epoch']}"  # read-only work has none
        text.append(f"   generation {document['generation']}{epoch}", style="dim")
    return text


def way(source: str | None, target: str | None) -> Text:
    """Return ``1.0.0 -> 1.1.0``, or ``new -> 1.1.0`` for an environment that does not exist yet."""
    text = Text(source or "new", style="bold")
    if target is not None and target != source:
        text.append(" -> ", style="dim").append(target, style="bold")
    return text


#: More stages than this of one kind are one line: a thousand collections are read as a number, not as a thousand lines.
STAGES_SHOWN = 12


def _stage_table(stages: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("stage")
    table.add_column("collection", style="cyan", overflow="fold")
    table.add_column("table version", justify="right")
    table.add_column("seconds", justify="right")
    kinds = dict.fromkeys(stage["kind"] for stage in stages)
    for kind in kinds:
        alike = [stage for stage in stages if stage["kind"] == kind]
        if len(alike) > STAGES_SHOWN:
            table.add_row(kind, f"{len(alike):,} collections", "", _seconds(sum(stage["seconds"] for stage in alike)))
            continue
        for stage in alike:
            version = "" if stage["table_version"] is None else str(stage["table_version"])
            table.add_row(kind, stage["collection"] or "", version, _seconds(stage["seconds"]))
    return table


def _seconds(value: float) -> str:
    return f"{value:.2f}"


def show_pending(to: Console, pending: Sequence[Mapping[str, Any]]) -> None:
    """Print the holds: until when there is a way back, and what ends it."""
    for hold in pending:
        to.print()
        to.print(hold_text(hold))


def hold_text(hold: Mapping[str, Any]) -> Text:
    """Say until when there is a way back, or that its time is over. Also name the nodes that keep it open longer (``kept_by``)."""
    before, until, cost = back_to(hold), minute_of(hold["until"]), _cost(hold)
    often = f", run {hold['rollbacks']} times," if hold["rollbacks"] > 1 else ""
    if hold["state"] == "keeping":
        kept = f"{hold['to']} was rolled back; the rows that stayed behind are kept until {until}{cost}"
        return Text(f"{kept}: `schemamig contract` deletes them then.", style="yellow" if hold["over"] else "")
    if hold["state"] == "open":
        if not hold["over"]:
            return Text(f"The way back to {before} is open until {until}{cost}: `schemamig rollback`{often} takes it.")
        ends = "`schemamig contract` has run"
        if hold["by_hand"]:
            ends = f"somebody ends it, as the ledger was restored since: `schemamig contract --generation {hold['generation']}`"
        text = Text(
            f"The hold of {hold['to']} ended {until}: `schemamig rollback`{often} goes back to {before} until {ends}.", style="yellow"
        )
        for node in hold.get("kept_by", ()):
            text.append(
                f"\n  kept by node {node['id']}, which works with {node['release']} since {minute_of(node['since'])}"
                f" (counts as alive until {minute_of(node['lease_until'])})"
            )
        return text
    if hold["state"] == "rolling_back":
        begun = f"The rollback to {before} was begun and is not at its end: `schemamig rollback`{often} goes on with it"
        return Text(f"{begun}, an upgrade to {hold['to']} takes it back.", style="yellow")
    return Text(f"The way back to {before} is over: `schemamig contract` takes away what it needed ({hold['state']}).", style="yellow")


def _cost(hold: Mapping[str, Any]) -> str:
    """Return the cost of a hold, if it is known: ``, at the cost of about 1.0 kB (airports g2-1a2b; a: x)``."""
    if not hold.get("keeps"):
        return ""
    kept = "; ".join(f"{item['collection']}: {', '.join(item['columns']) or item['shard']}" for item in hold["keeps"])
    return f", at the cost of about {size(hold['bytes'])} ({kept})"


def show_notes(to: Console, notes: Sequence[str]) -> None:
    for note in notes:
        to.print(Text.assemble(("note  ", "yellow"), note))


def show_diff(to: Console, document: Mapping[str, Any]) -> None:
    """Print the outcome first, then one line a change."""
    outcome = document["outcome"]
    headline = Text(outcome, style=COST_STYLES[outcome])
    if document["drops_data"]:
        headline.append("   drops data", style="bold red")
    to.print(headline)
    table = Table(box=None, pad_edge=False, show_header=False)
    for change in document["changes"]:
        table.add_row(
            Text(change["collection"] or "", style="cyan"), change["text"], Text(change["cost"], style=COST_STYLES[change["cost"]])
        )
    if document["changes"]:
        to.print(table)


def show_facts(to: Console, facts: Mapping[str, Any]) -> None:
    """Print a few values by name, one a line."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in facts.items():
        number = isinstance(value, int) and not isinstance(value, bool)
        table.add_row(Text(name.replace("_", " "), style="dim"), f"{value:,}" if number else str(value if value is not None else "none"))
    to.print(table)


def table_of(*columns: str) -> Table:
    """Make a table; columns whose name ends in ``>`` hold numbers, in ``!`` what is copied and so stays on one line."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        right, is_unbroken = column.endswith(">"), column.endswith("!")
        table.add_column(column.rstrip(">!"), justify="right" if right else "left", overflow="fold", no_wrap=is_unbroken)
    return table
