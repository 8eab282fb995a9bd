"""What tasks hand on: small documents for XCom, whatever the number of collections; and the plan in words, for who approves it."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_provider_schemamig.core.html.moments import back_to
from airflow_provider_schemamig.core.html.render import blocked, once, size
from airflow_provider_schemamig.gates.asked_plans import plan_line
from airflow_provider_schemamig.visible import visible

#: Lines of one section; the report holds all of them.
SECTION_LINES = 40
#: Lines of one query, and columns of one table, within a section.
TABLE_LINES = 12
#: Names that are spelled out where one thing happens to many collections alike.
_NAMES = 5
#: Stages that are no change of a collection: what they mean for others stands under "breaks".
_SILENT = frozenset({"seal", "commit"})


def outcome_summary(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Summarize an ``Outcome`` document, its stages counted and timed by kind: ``{"expand": {"count": 1000, "seconds": 2.1}}``."""
    counts: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for stage in outcome["stages"]:
        counts[stage["kind"]] += 1
        seconds[stage["kind"]] += stage["seconds"]
    stages = {kind: {"count": count, "seconds": round(seconds[kind], 3)} for kind, count in counts.items()}
    return {**{key: outcome[key] for key in ("from", "to", "generation", "epoch", "pending", "notes")}, "stages": stages}


def chunks(collections: Iterable[str], size: int, most: int | None = None) -> list[list[str]]:
    """Split ``collections`` in order into lists of at most ``size``; of more, where there would be more than ``most`` lists."""
    names = list(collections)
    size = max(size, -(-len(names) // most)) if most else size
    return [names[start : start + size] for start in range(0, len(names), size)]


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """What is asked beside the plan. ``environment``: its URI; ``reasons``: version and docstring of each release that is gone through;
    ``hold``: how long the way back stays open."""

    environment: str
    generation: int
    reasons: Sequence[tuple[str, str]]
    hold: timedelta
    report_uri: str


def plan_markdown(plan: Mapping[str, Any], asked: PlanQuestion, now: datetime | None = None) -> str:
    """Write a plan document, with its explanations, as Airflow's page shows it."""
    at = now or datetime.now(UTC)
    way = f"from {plan['from']} to {plan['to']}" if plan["from"] else f"as a new environment, to {plan['to']}"
    lines = [
        f"**{visible(plan['release'])} {way}** on `{asked.environment}`",
        "",
        plan_line(asked.generation, plan["plan_digest"]),
    ]
    lines += _section("Why", _why(asked.reasons))
    lines += _section("What changes", _changes(plan["explanations"]))
    lines += _section("What breaks, and for whom", _by_text(plan["explanations"], "breaks") or ["- Nothing that is known."])
    lines += _section("For good: no rollback undoes it", _by_text(plan["explanations"], "irreversible") or ["- Nothing."])
    lines += _section("What it costs", _costs(plan))
    lines += _section("Way back", _rollback_lines(plan, asked, at))
    lines += _section("Connected now", _nodes(plan["nodes"]))
    lines += _section("Notes", [f"- {visible(note)}" for note in plan["notes"]])
    lines += ["", f"Full report: {asked.report_uri}"]
    return "\n".join(lines)


def plain(markdown: str) -> str:
    """Return the same for a log, which shows no bold type."""
    return markdown.replace("**", "").replace("`", "")


def _section(title: str, points: Iterable[str]) -> list[str]:
    """Return a section of a line or more a point. Where it is long each point keeps its first line, and the first ones all of theirs."""
    found = list(points)
    room = SECTION_LINES - min(len(found), SECTION_LINES)
    shown: list[str] = []
    is_first = True
    for point in found[:SECTION_LINES]:
        first, _, more = point.partition("\n")
        lines = more.count("\n") + 1 if more else 0
        if lines > room and not is_first:
            shown.append(f"{first} (its columns and queries are in the report)")
        else:
            shown.append(point)
            room, is_first = room - lines, is_first and not lines
    if len(found) > SECTION_LINES:
        shown.append(f"- … and {len(found) - SECTION_LINES} more, in the report")
    return ["", f"**{title}**", "", *shown] if found else []


def _why(reasons: Sequence[tuple[str, str]]) -> Iterator[str]:
    for version, docstring in reasons:
        first, *rest = visible(docstring.strip(), lines=True).splitlines() or [""]
        yield f"- {version}: {first}"
        yield from (f"  {line.strip()}" for line in rest if line.strip())


def _changes(explanations: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a point for each thing that happens, with its collections, their columns and queries."""
    named: dict[tuple[str, str, str], list[str]] = {}
    for stage in explanations:
        if stage["kind"] not in _SILENT:
            named.setdefault((stage["summary"], stage["cost"], "\n".join(_new_table(stage))), []).append(stage["collection"] or "")
    return [f"- {_names(names)}{visible(summary)} ({cost}){more}" for (summary, cost, more), names in named.items()]


def _new_table(stage: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines about a table made anew: the differences of its columns, and the queries that fill it."""
    if stage["columns"] or stage["queries"]:
        yield ""
    columns = stage["columns"]
    yield from (f"  - {visible(line)}" for line in columns[:TABLE_LINES])
    if len(columns) > TABLE_LINES:
        yield f"  - … and {len(columns) - TABLE_LINES} more, in the report"
    for name, sql in stage["queries"].items():
        lines = visible(sql, lines=True).splitlines()
        left = [f"-- {len(lines) - TABLE_LINES} more lines, in the report"] if len(lines) > TABLE_LINES else []
        fence = "~" * max(3, 1 + max(map(len, re.findall("~+", sql)), default=0))  # no text of it can end the block
        yield from (f"  - {name}:", "", f"    {fence}sql", *(f"    {line}" for line in (*lines[:TABLE_LINES], *left)), f"    {fence}")


def _by_text(explanations: Iterable[Mapping[str, Any]], field: str) -> list[str]:
    """Return a line for each text of ``field``, with the collections that it is about."""
    return [f"- {_names(names)}{visible(text)}" for text, names in once(explanations, field)]


def _names(collections: Sequence[str]) -> str:
    names = [name for name in collections if name]
    more = f" and {len(names) - _NAMES:,} more" if len(names) > _NAMES else ""
    return f"`{'`, `'.join(names[:_NAMES])}`{more}: " if names else ""


def _costs(plan: Mapping[str, Any]) -> Iterator[str]:
    estimates, timing = plan["estimates"], plan["timing"] or {}
    for item in estimates:
        read = f"{item['rows']:,} rows, {size(item['bytes'])} in {item['files']:,} files"
        yield f"- `{item['collection']}`: Spark reads {read} of {item['input']} and rewrites them"
    seconds = timing.get("seconds")
    if estimates:
        rows = sum(item["rows"] for item in estimates)
        long = "not known before the first copy here" if seconds is None else f"about {seconds:,.0f} s at the speed of earlier copies here"
        yield f"- In all {rows:,} rows, {size(sum(item['bytes'] for item in estimates))}; time: {long}"
    if any(stage["cost"] == "online" for stage in plan["explanations"]):
        yield "- Rows are checked or filled in place while others read and write; how long that takes is not estimated"
    elif not estimates:
        yield "- No row is read or written"
    yield f"- {blocked(plan)}"


def _rollback_lines(plan: Mapping[str, Any], asked: PlanQuestion, now: datetime) -> Iterator[str]:
    if not asked.hold:
        yield "- None once it is committed: the hold is 0, what the release before needs is taken away at once"
    else:
        hours = asked.hold.total_seconds() / 3600
        until = (now + asked.hold).strftime("%Y-%m-%d %H:%M UTC")
        yield f"- Open for {hours:g} h after the commit; if that were now, until {until}"
        yield f"- `schemamig rollback --env {shlex.quote(asked.environment)}`, or the DAG schemamig_rollback"
    yield from _by_text(plan["explanations"], "rollback")
    yield from (
        f"- Until {hold['until']} there is a way back to {back_to(hold)} (generation {hold['generation']})" for hold in plan["pending"]
    )


def _nodes(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    found = [f"- {node['kind']} `{visible(node['id'])}` with release {node['release']} since {node['since']}" for node in nodes]
    return found or ["- No reader, writer or replica that says so (a handle does with `node=`)"]
