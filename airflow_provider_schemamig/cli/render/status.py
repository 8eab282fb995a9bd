"""``schemamig status`` for people: one screen, what needs attention first in each table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from airflow_provider_schemamig.cli.render.common import Indented, hold_text, table_of
from airflow_provider_schemamig.cli.render.rows import control_text, pin_text, progress_cells, progress_table, touched_texts
from airflow_provider_schemamig.core.times import minute_of
from airflow_provider_schemamig.exceptions import listed

_CHANGES_SHOWN = 3

#: With more collections than this only those that need attention get a line of their own, and no more than so many of them.
COLLECTIONS_SHOWN = 40
#: The newest deployments are the interesting ones.
DEPLOYMENTS_SHOWN = 5

Document = Mapping[str, Any]


def status_view(uri: str, document: Document, *, cluster: bool) -> RenderableType:
    """Return what a person wants to see of the status document."""
    parts: list[RenderableType] = [_heading(uri, document)]
    is_promoted = _leads_as(document) == "promoted"
    if is_promoted:
        parts.append(_not_committed(document["leader"]["generation"]))
    if is_promoted or any(hold["state"] == "rolling_back" for hold in document["holds"]):
        parts += _sealed(document["collections"])
    parts += map(_not_promoted, _claims(document))
    parts += [Text(), _collections(document["collections"])]
    parts += list(_drift(document["collections"]))
    parts += list(touched_texts(document["retired"]))
    if document["elements"]:
        parts += [Text(), _elements(document["elements"])]
    if document["progress"]:
        parts += [Text(), progress_table(document["progress"])]
    lines = [*map(control_text, document["controls"]), *map(pin_text, document["pins"])]
    parts += [Text(), *lines] if lines else []
    parts += [Text(), *map(_preparing, document["preparing"])] if document["preparing"] else []
    if document["deployments"]:
        parts += [Text(), _deployments(document["deployments"])]
        older = len(document["deployments"]) - DEPLOYMENTS_SHOWN
        parts += [Text(f"{older:,} older deployment(s): --json has them all.", style="dim")] if older > 0 else []
    for hold in document["holds"]:
        parts += [Text(), hold_text(hold)]
    if cluster:
        parts += [Text(), _nodes(document["nodes"])]
    return Group(*parts)


def _heading(uri: str, document: Document) -> Text:
    text = Text.assemble((uri, "bold"), "  at ", (document["version"] or "no release yet", "bold green"))
    leader = document["leader"]
    if leader is not None:
        leads = "no generation leads" if _leads_as(document) == "rolled_back" else f"generation {leader['generation']} leads"
        text.append(f"   {leads} since {minute_of(leader['since'])}, epoch {leader['epoch']}", style="dim")
    return text


def _leads_as(document: Document) -> str | None:
    """Return the state of the generation that leads; None where none does, or its deployment is not shown."""
    leader = document["leader"]
    states = {item["generation"]: str(item["state"]) for item in document["deployments"]}
    return None if leader is None else states.get(leader["generation"])


def _not_committed(generation: int) -> Text:
    return Text.assemble(
        ("promoted, not committed", "yellow"),
        f"  generation {generation}: if nobody is at work, `schemamig upgrade` goes on, `schemamig rollback` takes it back.",
    )


def _sealed(collections: Document) -> list[Text]:
    """Return what is said of the sealed tables of an upgrade or a rollback: if it died, somebody has to hurry."""
    names = [name for name, item in sorted(collections.items()) if item["sealed"]]
    told = f"  {listed(names, 3)}: writers are refused until it goes on or is taken back; if nobody is at work, hurry."
    return [Text.assemble(("sealed", "bold red"), told)] if names else []


def _claims(document: Document) -> list[int]:
    """Return the generations that may still be promoted: claimed after the one that leads, and not rejected."""
    leads = 0 if document["leader"] is None else document["leader"]["generation"]
    claims = (item for item in document["deployments"] if item["state"] == "claimed" and item.get("rejected") is None)
    return sorted(item["generation"] for item in claims if item["generation"] > leads)


def _not_promoted(generation: int) -> Text:
    return Text.assemble(
        ("claimed, not promoted", "yellow"),
        f"  generation {generation}: if nobody is at work, `schemamig upgrade` goes on, `schemamig promote --generation {generation}` "
        f"promotes it once it is approved, `schemamig cancel --generation {generation}` gives it up.",
    )


def _collections(collections: Mapping[str, Document]) -> RenderableType:
    """Return a line a collection; of very many only those that need attention, the worst first, and how many more there are of a kind."""
    shown, rest = dict(collections), dict[str, Document]()
    if len(collections) > COLLECTIONS_SHOWN:
        noted = sorted((name for name, item in collections.items() if _remarks(item)), key=lambda name: not collections[name]["drift"])
        shown = {name: collections[name] for name in noted[:COLLECTIONS_SHOWN]}
        rest = {name: collections[name] for name in noted[COLLECTIONS_SHOWN:]}
    table = table_of("collection", "shard!", "version>", "schema>", "columns>", "remarks")
    for name, item in shown.items():
        version = item.get("table_version")
        counts = str(len(item["declared"]))
        table.add_row(
            Text(name, style="cyan"),
            item["shard"],
            "" if version is None else str(version),
            str(item["schema_id"]),
            counts,
            _remark_text(item),
        )
    alike = Counter(_remark_text(item).plain for item in rest.values())
    lines = [Text(f"{count:,} more: {text} (--json has all)") for text, count in alike.most_common()]
    quiet = len(collections) - len(shown) - len(rest)
    lines += [Text(f"{quiet:,} collections are as the ledger says.", style="dim")] if quiet else []
    if not lines:
        return table if shown else Text("no collections")
    return Group(*([table] if shown else []), *lines)


def _remarks(item: Document) -> list[tuple[str, str]]:
    remarks = []
    if item["drift"]:
        remarks.append(("drift", "bold red"))
    if item["sealed"]:
        remarks.append(("sealed", "yellow"))
    if item["in_flight"]:
        remarks.append((f"in flight: {', '.join(map(str, item['in_flight']))}", "yellow"))
    if item.get("ahead"):
        remarks.append((f"ahead of its release: {listed(item['ahead_by'], _CHANGES_SHOWN)}", "yellow"))
    if item["hidden"]:
        remarks.append((f"hidden: {', '.join(item['hidden'])}", "dim"))
    return remarks


def _remark_text(item: Document) -> Text:
    return Text("; ").join([Text(text, style=style) for text, style in _remarks(item)])


def _drift(collections: Mapping[str, Document]) -> Iterator[RenderableType]:
    drifted = [name for name, item in collections.items() if item["drift"]]
    for name in drifted[:COLLECTIONS_SHOWN]:
        item = collections[name]
        for difference in item["drift"]:
            yield Text.assemble(("drift  ", "bold red"), (name, "cyan"), f"  {difference}")
        for way in item.get("ways_on", ()):
            yield from _way(way)


def _way(way: Document) -> Iterator[RenderableType]:
    """Yield one of the three ways on from drift: what it would do, what that loses, and the command; or why it is not possible."""
    name = (way["way"], "bold")
    if way["why_not"]:
        yield Indented(Text.assemble(name, f"  cannot: {'; '.join(way['why_not'])}"))
        return
    losses = f" (loses: {'; '.join(way['loses'])})" if way["loses"] else ""
    yield Indented(Text.assemble(name, f"  {'; '.join(way['does'])}{losses}"))
    yield Indented(Text(f"`{way['command']}`", style="dim"), by=4)


def _elements(elements: Sequence[Document]) -> RenderableType:
    """Return a line for each element, and below them what some wait for, each reason once."""
    reasons = dict.fromkeys(item["waits"] for item in elements if item["waits"])
    return Group(_element_table(elements), *(Text(f"waits: {reason}", style="yellow") for reason in reasons))


def _element_table(elements: Sequence[Document]) -> Table:
    table = table_of(
        "collection", "element", "state", "phase", "done>", "rows>", "rows/s>", "left>", "commits>", "of others>", "since", "error"
    )
    for item in elements:
        style = "bold red" if item["error"] else "green" if item["state"] == "public" else "yellow"
        table.add_row(
            Text(item["collection"], style="cyan"),
            item["element"],
            Text(item["state"].upper(), style=style),
            f"{item['phase']}, waits" if item["waits"] else item["phase"],
            *(progress_cells(item["progress"]) if item["progress"] else ("",) * 4),
            *(_commit_cells(item["commits"]) if item["commits"] else ("?", "?")),
            minute_of(item["since"]),
            item["error"] or "",
        )
    return table


def _commit_cells(commits: Document) -> tuple[str, str]:
    return f"{commits['metadata'] + commits['batches']:,}", f"{commits['others']:,}"


def _preparing(item: Document) -> Text:
    """Render an upgrade that is checked and has claimed no generation yet."""
    counted = f"{item['done']}/{item['total']}" if item["total"] else ""
    what = "  ".join(part for part in (item["stage"], counted, item["note"]) if part)
    return Text.assemble(
        ("prepares ", "yellow"),
        f"{item['from'] or 'new'} -> {item['to']} since {minute_of(item['since'])}, {item['who']}: {what}; no claim yet",
    )


def _deployments(deployments: Sequence[Document]) -> Table:
    table = table_of("generation>", "from", "to", "state", "claimed", "plan!", "approved by", "promoted with")
    for item in sorted(deployments, key=lambda item: -int(item["generation"]))[:DEPLOYMENTS_SHOWN]:
        table.add_row(
            str(item["generation"]),
            item["from"] or "new",
            item["to"],
            item["state"],
            minute_of(item["created_at"]),
            item["plan_digest"][:12],
            _answer(item),
            _code(item),
        )
    return table


def _answer(item: Document) -> str:
    """Return the person who approved or rejected the plan, with the reason of a rejection."""
    no = item.get("rejected")
    if no is None:
        return item["approved_by"] or ""
    return f"rejected by {no['by']}: {no['why']}" if no["why"] else f"rejected by {no['by']}"


def _code(item: Document) -> str:
    """Return what promoted it: schemamig's version, and the bundle of DAG files with its."""
    return ", ".join(part for part in (item.get("promoted_with"), item.get("promoted_from")) if part)


def _nodes(nodes: Sequence[Document]) -> RenderableType:
    if not nodes:
        return Text("no live nodes", style="dim")
    names = list(dict.fromkeys(key for node in nodes for key in node))
    table = table_of(*names)
    for node in nodes:
        table.add_row(*(_node_cell(name, node.get(name)) for name in names))
    return table


def _node_cell(name: str, value: Any) -> str:
    return "" if value is None else minute_of(value) if name in ("since", "lease_until", "at") else str(value)
