"""The documents that the page shows, by name: those of the command line, and small ones made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pendulum

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.replication.errors import GapError
from airflow_provider_schemamig.core.upgrade.documents.pace import authored
from airflow_provider_schemamig.exceptions import listed

_CHANGES_SHOWN = 3
_OPEN = ("claimed", "promoted")
#: What ends a stream so that its rows have to be restored.
_GAPS = {GapError.code} | {kind.code for kind in GapError.__subclasses__()}


@dataclass(frozen=True, slots=True)
class Document:
    """``make``: makes it; ``seconds``: for how long it holds at least while the ledger stays as it is."""

    make: Callable[..., dict[str, Any]]
    seconds: float


def overview(env: Environment) -> dict[str, Any]:
    """Return an environment in one line: what a list of environments shows."""
    status = commands.status(env).to_json()
    schema = commands.schema_status(env, pendulum.now("UTC")).to_json()
    streams = schema["streams"]
    collections = status["collections"]
    under_way = [item for item in status["deployments"] if item["state"] in _OPEN and _is_led(status, item)]
    kinds = [stream_line(stream)["kind"] for stream in streams]
    nodes = sorted(status["nodes"], key=lambda node: [int(part) for part in node["release"].split(".")])
    return {
        "env_id": schema["env_id"],
        "version": status["version"],
        "collections": len(collections),
        "drifted": sum(1 for item in collections.values() if item["drift"]),
        "sealed": sum(1 for item in collections.values() if item["sealed"]),
        "hidden": sum(1 for item in collections.values() if item["hidden"]),
        "holds": [hold for hold in status["holds"] if hold["state"] in ("open", "rolling_back", "keeping")],
        "leader": status["leader"],
        "open": _opened(env, status, under_way[-1]) if under_way else None,
        "preparing": status["preparing"][0] if status["preparing"] else None,
        "work": max(status["progress"], key=lambda item: str(item["updated_at"]), default=None),
        "controls": authored(status["controls"], commands.read_history(env)) if status["controls"] else [],
        "streams": len(streams),
        "streams_waiting": kinds.count("warn"),
        "streams_stopped": kinds.count("bad"),
        "oldest_node": nodes[0] if nodes else None,
        "claims": {item["claimed_by"]: item["generation"] for item in status["deployments"]},
    }


def _opened(env: Environment, status: Mapping[str, Any], item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a deployment under way; ``waits``: nobody has said yes or no, nothing is being built meanwhile, nothing failed, and no pause
    holds everything up."""
    is_busy = any(row["generation"] == item["generation"] and row["done"] < row["total"] for row in status["progress"])
    failed = commands.last_failure(env, item["generation"])
    is_paused = any(control["paused"] and control["collection"] is None for control in status["controls"])
    waits = item["state"] == "claimed" and not (item["approved_by"] or item["rejected"] or is_busy or failed or is_paused)
    return {**item, "failed": failed, "waits": waits}


def _is_led(status: Mapping[str, Any], item: Mapping[str, Any]) -> bool:
    """Return whether nobody took over from an open deployment."""
    return status["leader"] is None or item["generation"] >= status["leader"]["generation"]


def tables(env: Environment) -> dict[str, Any]:
    """Return every collection in one line."""
    status = commands.status(env).to_json()
    lines = [
        {
            "collection": name,
            "columns": len(item["declared"]),
            "schema_id": item["schema_id"],
            "table_version": item["table_version"],
            "uri": item["uri"],
            "remarks": [list(remark) for remark in _remarks(item)],
        }
        for name, item in status["collections"].items()
    ]
    return {"version": status["version"], "tables": lines}


def _remarks(item: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if item["drift"]:
        yield "drift", "bad"
    if item["sealed"]:
        yield "sealed", "warn"
    if item["in_flight"]:
        yield f"in flight: {', '.join(item['in_flight'])}", "busy"
    if item["ahead"]:
        yield f"ahead of its release: {listed(item['ahead_by'], _CHANGES_SHOWN)}", "busy"
    if item["hidden"]:
        yield f"hidden: {', '.join(item['hidden'])}", ""
    if item["adopted"]:
        yield "adopted", ""


def deployment(env: Environment, generation: int | None = None) -> dict[str, Any]:
    """Return one deployment; None: the newest."""
    found = commands.deployment_document(env, None if generation is None else Generation(generation))
    return {name: value for name, value in found.items() if name != "now"}  # the same document as long as nothing happens


def streams(env: Environment) -> dict[str, Any]:
    """Return the streams into an environment, and the environments that have each schema."""
    found = commands.cluster_status(env, pendulum.now("UTC")).to_json()
    return {
        "env_id": found["env_id"],
        "release": found["release"],
        "hash": found["hash"],
        "streams": [stream_line(item) for item in found["streams"]],
        "groups": [_group(group) for group in found["cluster"]["groups"]],
        "unreadable": found["unreadable"],
    }


def _group(group: Mapping[str, Any]) -> dict[str, Any]:
    return {"hash": group["hash"], "current": group["current"], "previous": group["previous"]}


def stream_line(stream: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stream in one line: its state in a word, its lag, why it waits and what is next."""
    pause, gap = stream["pause"], stream["error"] in _GAPS
    why = stream["detail"] or stream["error"] or stream["warning"]
    if pause is not None:
        why = ": ".join(part for part in (pause["reason"], pause["detail"]) if part)
    following = {"following": "good", "paused": "warn", "stopped": "bad"}
    goes_on = "goes on by itself once the schemas agree" if pause is not None else None
    ended = "restore its rows: commits are gone that it never saw" if gap else "see the log of its run" if stream["error"] else None
    return {
        "collection": stream["collection"],
        "origin": stream["origin"],
        "state": stream["state"],
        "kind": following[stream["state"]],
        "lag": "not known" if gap else f"{stream['lag_versions']:,} versions, {stream['lag_seconds']:,.0f} s",
        "why": why or None,
        "since": pause["since"] if pause is not None else stream["updated_at"],
        "next": goes_on or ended,
        "restore": gap,
    }


DOCUMENTS: Mapping[str, Document] = {
    "overview": Document(overview, 10),
    "tables": Document(tables, 10),
    "deployment": Document(deployment, 5),
    "table": Document(commands.table_document, 10),
    "drift": Document(commands.drift_document, 15),
    "streams": Document(streams, 5),
    "history": Document(commands.history_document, 5),
    "rollback_preview": Document(commands.rollback_document, 2),
    "status": Document(lambda env: commands.status(env).to_json(), 10),
}
