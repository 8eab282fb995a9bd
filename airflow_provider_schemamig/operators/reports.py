"""What tasks hand on through XCom: small documents, whatever the number of collections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

#: Lines of a plan that are shown where a person approves it; the report holds all of them.
PLAN_LINES = 40


def outcome_summary(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Summarize an ``Outcome`` document, its stages counted and timed by kind: ``{"expand": {"count": 1000, "seconds": 2.1}}``."""
    counts: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for stage in outcome["stages"]:
        counts[stage["kind"]] += 1
        seconds[stage["kind"]] += stage["seconds"]
    stages = {kind: {"count": count, "seconds": round(seconds[kind], 3)} for kind, count in counts.items()}
    return {**{key: outcome[key] for key in ("from", "to", "generation", "epoch", "pending", "notes")}, "stages": stages}


def plan_markdown(plan: Mapping[str, Any], report_uri: str) -> str:
    """Write a plan document for the person who approves it; cut after ``PLAN_LINES`` stages."""
    stages: Sequence[Mapping[str, Any]] = plan["stages"]
    lines = [f"**{plan['from'] or 'new environment'} → {plan['to']}**, plan `{plan['plan_digest'][:12]}`", ""]
    lines += [_stage_line(stage) for stage in stages[:PLAN_LINES]]
    if len(stages) > PLAN_LINES:
        lines.append(f"- … and {len(stages) - PLAN_LINES} more")
    lines += ["", *(f"- ends the hold of generation {hold['generation']}" for hold in plan["pending"])]
    lines.append(f"Full report: {report_uri}")
    return "\n".join(lines)


def _stage_line(stage: Mapping[str, Any]) -> str:
    changes = ", ".join(_change_text(change) for change in stage["changes"])
    where = f" `{stage['collection']}`" if stage["collection"] else ""
    return f"- **{stage['kind']}**{where}" + (f": {changes}" if changes else "")


def _change_text(change: Mapping[str, Any]) -> str:
    return f"{change['op']} `{change['path']}`" if change.get("path") else str(change["op"])


def chunks(collections: Iterable[str], size: int) -> list[list[str]]:
    """Split ``collections`` in order into lists of at most ``size``."""
    names = list(collections)
    return [names[start : start + size] for start in range(0, len(names), size)]
