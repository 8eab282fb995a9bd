"""``schemamig schema`` for people: who has what, and what waits for whom. Environments go by the beginning of their ids."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from airflow_provider_schemamig.cli.render.common import table_of
from airflow_provider_schemamig.cli.render.rows import duration
from airflow_provider_schemamig.core.times import minute_of
from airflow_provider_schemamig.visible import visible

Document = Mapping[str, Any]

#: With more than this only those that need attention get a line of their own.
LINES_SHOWN = 40
#: More hashes or changes than this are a number.
ITEMS_SHOWN = 6
_VERDICTS = {
    "consistent": ("consistent", "bold green"),
    "rolling_upgrade": ("rolling upgrade in progress", "bold yellow"),
    "diverged": ("diverged", "bold red"),
}
_COUNTS = {"applied_rows": "row(s)", "applied_batches": "commit(s)", "restores": "restore(s)"}
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def local_view(document: Document) -> RenderableType:
    """Render one environment: its hashes, and the streams into it."""
    document = _printable(document)
    return Group(*_heading(document), Text(), _collections(document), *_streams(document["streams"]), *_unreadable(document))


def cluster_view(document: Document) -> RenderableType:
    """Return every environment that this one has heard of."""
    document = _printable(document)
    cluster = document["cluster"]
    words, style = _VERDICTS[cluster["verdict"]]
    stale = sum(node["stale"] for node in cluster["nodes"])
    verdict = Text.assemble((words, style), f"   {len(cluster['nodes']):,} environment(s)")
    verdict.append(f", {stale:,} not heard of lately" if stale else "", style="yellow")
    elsewhere = [stream for stream in cluster["waiting"] if stream["target"] != document["env_id"]]
    return Group(
        *_heading(document),
        verdict,
        Text(),
        _nodes(document["env_id"], cluster["nodes"]),
        Text(),
        *_groups("all collections", cluster["groups"]),
        *_differences(cluster["collections"]),
        *_streams([*document["streams"], *elsewhere]),
        *_unreadable(document),
    )


def refreshed_view(document: Document) -> RenderableType:
    """Return the schema that ``schema refresh`` told the others, and the streams woken by it."""
    text = Text.assemble(
        (document["uri"], "bold"), "  ", (short_hash(document["hash"]), "green"), "  published ", minute_of(document["updated_at"])
    )
    woken = [
        Text.assemble("woken  ", (stream["collection"], "cyan"), f"  from {short_id(stream['origin'])}") for stream in document["woken"]
    ]
    return Group(text, *(woken or [Text("No replication into it is paused; stopped ones look again, too.", style="dim")]))


def sides_text(one: Document, other: Document) -> Text:
    """Return which environments ``schema diff`` compares."""
    text = Text()
    for side, end in ((one, "\n"), (other, "")):
        text.append(side["uri"], style="bold").append(f"  {side['release'] or 'no release yet'}  {short_hash(side['hash'])}{end}")
    return text


def _printable(value: Any) -> Any:
    """Return a document with its control characters and line ends shown: much of it was written by others."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {_printable(key): _printable(item) for key, item in value.items()}
    return [_printable(item) for item in value] if isinstance(value, list) else value


def short_hash(text: str) -> str:
    """Return ``sf1:`` and the first 12 hex digits."""
    return text[:16]


def short_id(text: str) -> str:
    """Return the first 8 digits of a UUID; other ids are names that somebody gave."""
    return text[:8] if _UUID.fullmatch(text) else text


def _heading(document: Document) -> Iterator[Text]:
    version = document["release"] or "no release yet"
    yield Text.assemble((document["uri"], "bold"), "  at ", (version, "bold green"), f"   {short_id(document['env_id'])}")
    told = "not published yet" if document["updated_at"] is None else f"published {minute_of(document['updated_at'])}"
    if document["updated_at"] is not None and not document["published"]:
        told += ", and changed since"
    yield Text.assemble(
        "schema hash ", (short_hash(document["hash"]), "green"), f"   {told}", style="" if document["published"] else "yellow"
    )


def _collections(document: Document) -> RenderableType:
    found, depth = document["collections"], document["depth"]
    if not found:
        return Text("no collections")
    shown = dict(list(found.items())[:LINES_SHOWN])
    table = table_of("collection", "hash", "since version>", "previous (accepted during rolling upgrades)")
    for name, item in shown.items():
        previous = [short_hash(hash_) for hash_ in item["previous"][:depth]]
        table.add_row(Text(name, style="cyan"), short_hash(item["hash"]), str(item["table_version"]), ", ".join(previous))
    rest = len(found) - len(shown)
    return Group(table, Text(f"and {rest:,} more (--json has all)", style="dim")) if rest else table


def _nodes(own: str, nodes: Sequence[Document]) -> Table:
    table = table_of("environment", "release", "hash", "heard of", "software", "where")
    for node in nodes:
        heard = Text("this one", style="dim") if node["env_id"] == own else _heard(node)
        release = node["release"] or "none"
        table.add_row(Text(short_id(node["env_id"]), style="cyan"), release, short_hash(node["hash"]), heard, node["software"], node["uri"])
    return table


def _heard(node: Document) -> Text:
    if node["age_seconds"] < 0:
        return Text(f"{duration(-node['age_seconds'])} ahead: its clock?", style="bold yellow" if node["stale"] else "dim")
    return Text(f"{duration(node['age_seconds'])} ago" + (", stale" if node["stale"] else ""), style="bold yellow" if node["stale"] else "")


def _groups(what: str, groups: Sequence[Document]) -> Iterator[Text]:
    """Yield one line a hash: who has it, and who had it and accepts it."""
    for group in groups:
        marked = (
            f"{_some([short_id(env_id) for env_id in group[mark]], ', ')} ({mark})" for mark in ("current", "previous") if group[mark]
        )
        yield Text.assemble((what, "cyan"), "  ", (short_hash(group["hash"]), "green"), f"  {'; '.join(marked)}")


def _differences(collections: Mapping[str, Document]) -> Iterator[RenderableType]:
    """Yield, for a collection that is not the same everywhere, its hashes, and how each differs from the first one's columns."""
    for name, item in list(collections.items())[:LINES_SHOWN]:
        words, style = _VERDICTS[item["verdict"]]
        yield Text()
        yield Text.assemble((name, "cyan"), "  ", (words, style))
        for number, group in enumerate(item["groups"]):
            yield from _groups(" ", [group])
            if number and group["hash"] == item["groups"][0]["hash"]:
                yield Text("     the same names, but other columns go by them")
            elif number:
                yield Text(f"     {_changes(group['changes'])}", style="dim" if group["changes"] is None else "")
    rest = len(collections) - LINES_SHOWN
    if rest > 0:
        yield Text(f"and {rest:,} more collections that differ (--json has all)", style="dim")


def _changes(changes: Sequence[Document] | None) -> str:
    if changes is None:
        return "what it looks like is not known here yet"
    return "differs: " + (_some([change["text"] for change in changes], "; ") or "in its name only")


def _some(items: Sequence[str], separator: str) -> str:
    rest = len(items) - ITEMS_SHOWN
    return separator.join(items[:ITEMS_SHOWN]) + (f"{separator}and {rest:,} more" if rest > 0 else "")


def show_streams(to: Console, document: Document) -> None:
    """Print the counts of a turn of ``replicate``, and the state of the streams after it."""
    document = _printable(document)
    to.print(Group(*_streams(document["streams"])))
    counts = [f"{document[name]:,} {words}" for name, words in _COUNTS.items() if document[name]]
    follows = all(stream["state"] == "following" for stream in document["streams"])
    to.print(Text(f"{', '.join(counts)}." if counts else "Nothing to do." if follows else "Nothing was brought."))


def _streams(streams: Sequence[Document]) -> Iterator[RenderableType]:
    """Yield what waits, with why, and then how far the others are."""
    if not streams:
        return
    table = table_of("from", "to", "collection", "state", "behind>", "for>", "as of")
    quiet = [stream for stream in streams if stream["state"] == "following" and not stream["warning"] and not stream["lag_versions"]]
    shown = streams if len(streams) <= LINES_SHOWN else [stream for stream in streams if stream not in quiet]
    for stream in shown:
        table.add_row(
            short_id(stream["origin"]),
            short_id(stream["target"]),
            Text(stream["collection"], style="cyan"),
            Text(stream["state"], style={"following": "green", "paused": "bold yellow", "stopped": "bold red"}[stream["state"]]),
            f"{stream['lag_versions']:,} version(s)",
            duration(stream["lag_seconds"]),
            minute_of(stream["updated_at"]),
        )
    yield Text()
    yield table
    if len(shown) < len(streams):
        yield Text(f"{len(streams) - len(shown):,} streams have brought everything.", style="dim")
    for stream in shown:
        yield from _why(stream)


def _why(stream: Document) -> Iterator[Text]:
    name = (f"{stream['collection']}", "cyan")
    if stream["error"] is not None:
        yield Text.assemble(("stopped  ", "bold red"), name, f"  {stream['error']}: {stream['detail']}")
    elif stream["pause"] is not None:
        pause = stream["pause"]
        since = f"since {minute_of(pause['since'])} ({duration(pause['seconds'])}), at version {pause['event_version']}"
        yield Text.assemble(("paused  ", "bold yellow"), name, f"  {since}, {pause['reason']}: {pause['detail']}")
    if stream["warning"]:
        yield Text.assemble(("warning  ", "yellow"), name, f"  {stream['warning']}")


def _unreadable(document: Document) -> Iterator[Text]:
    for damage in document["unreadable"]:
        yield Text.assemble(("unreadable  ", "bold red"), f"{damage['where']}: {damage['reason']}")
