"""Templates filled with documents. Everything that a document holds is escaped: names and comments are other people's."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.core.html.moments import MOMENTS, back_to
from airflow_provider_schemamig.core.html.runbook import entry_of
from airflow_provider_schemamig.core.typed_commands import typed
from airflow_provider_schemamig.visible import visible

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, **values: Any) -> str:
    """Return the filled template. ``values``: documents, and what the template says it takes."""
    return _templates().get_template(template).render(**values)


def report_html(document: Mapping[str, Any]) -> str:
    """Return a deployment as one HTML file that needs nothing else: no script, no file, no address."""
    return render("report.html", document=document, now=datetime.now(UTC), css=static("schemamig.css").decode())


@functools.cache
def static(name: str) -> bytes:
    """Return a file that pages load. Raises KeyError for a name that is none of them."""
    if name not in STATIC:
        raise KeyError(name)
    return resources.files(__package__).joinpath("static", name).read_bytes()


#: The files that pages load, with their media types.
STATIC = {
    "schemamig.css": "text/css",
    "schemamig.js": "text/javascript",
    "theme.js": "text/javascript",
    "htmx.min.js": "text/javascript",
}


@functools.cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    found = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    found.filters |= {"at": at, "seconds": seconds, "size": size, "count": count, "ago": ago, "plain": plain, "moments": moments}
    found.filters |= {"once": once, "outcome": outcome, "last_task": last_task, "entry": entry_of, "blocked": blocked}
    found.filters |= {"back_to": back_to, "typed": typed}
    return found


def _shown(value: object) -> object:
    """Return what a template puts in: text without what is invisible or turns its direction. What is marked up was here before."""
    return visible(value, lines=True) if type(value) is str else value


#: So many collections are named in one line.
_NAMES = 5

# --- filters -------------------------------------------------------------------------------------------------------------------------


def at(moment: str | datetime | None) -> str:
    """Return a moment as people read it, in UTC; "" where there is none."""
    found = _moment(moment)
    return "" if found is None else f"{found.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def ago(moment: str | datetime | None, now: datetime) -> str:
    """Return how long ago, or in how long."""
    found = _moment(moment)
    if found is None:
        return ""
    gone = (now - found).total_seconds()
    return f"{seconds(gone)} ago" if gone >= 0 else f"in {seconds(-gone)}"


def _moment(moment: str | datetime | None) -> datetime | None:
    return datetime.fromisoformat(moment) if isinstance(moment, str) else moment


def seconds(value: float | None) -> str:
    """Return a length of time with its two largest units."""
    if value is None:
        return ""
    if value < 60:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def size(count_of_bytes: int | None) -> str:
    """Return bytes in decimal units; "?" where nobody can tell."""
    if count_of_bytes is None:
        return "?"
    found, units = float(count_of_bytes), ["bytes", "kB", "MB", "GB", "TB"]
    while found >= 1000 and len(units) > 1:
        found, units = found / 1000, units[1:]
    return f"{found:,.0f} {units[0]}" if units[0] == "bytes" else f"{found:,.1f} {units[0]}"


def count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def plain(text: object) -> str:
    """Return a text without control characters."""
    return visible(str(text), lines=True)


def outcome(entry: Mapping[str, Any]) -> str:
    """Return the class of a history entry: good, bad, or under way."""
    return {"done": "good", "begun": "busy", "found_committed": "good"}.get(entry["outcome"], "bad")


#: What people say of a deployment, or do beside it: an answer does not fix a task that failed.
_WORDS = frozenset({"approve", "reject", "accept", "adopt", "revert", "unmanage", "force"})


def last_task(entries: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the task of a deployment that ended last, of its history entries in the order of time."""
    tasks = (entry for entry in reversed(entries) if entry["what"] not in _WORDS and not entry["what"].endswith(" asked"))
    return next(tasks, None)


def moments(explanations: Iterable[Mapping[str, Any]]) -> list[tuple[str, str, list[tuple[list[str], Mapping[str, Any]]]]]:
    """Return a plan by its moments; collections to which exactly the same happens stand together."""
    stages = list(explanations)
    found = []
    for title, meaning, kinds in MOMENTS:
        alike: dict[str, tuple[list[str], Mapping[str, Any]]] = {}
        for stage in stages:
            if stage["kind"] in kinds:
                same = repr({**stage, "collection": None})
                alike.setdefault(same, ([], stage))[0].extend([stage["collection"]] if stage["collection"] else [])
        if alike:
            found.append((title, meaning, list(alike.values())))
    return found


def blocked(plan: Mapping[str, Any]) -> str:
    """Return for how long a plan keeps writers out; the collections that it seals without a copy by name."""
    low, high = plan["blocked_seconds"]
    if high:
        return f"Writers are blocked for {low} to {high} s"
    shut = [stage["collection"] for stage in plan["explanations"] if stage["kind"] == "seal"]
    more = f" and {len(shut) - _NAMES:,} more" if len(shut) > _NAMES else ""
    named = f"{', '.join(shut[:_NAMES])}{more}"
    return f"Writers are blocked for less than a second, from the seal to the commit: {named}" if shut else "No writer is blocked"


def once(explanations: Iterable[Mapping[str, Any]], field: str) -> list[tuple[str, list[str]]]:
    """Return each text of ``field`` once, with the collections that it is about."""
    named: dict[str, list[str]] = {}
    for stage in explanations:
        for text in stage[field]:
            names = named.setdefault(text, [])
            if stage["collection"] and stage["collection"] not in names:
                names.append(stage["collection"])
    return list(named.items())
