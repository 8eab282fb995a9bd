"""What tasks hand on through XCom: small documents, whatever the number of collections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any


def outcome_summary(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """Summarize an ``Outcome`` document, its stages counted and timed by kind: ``{"expand": {"count": 1000, "seconds": 2.1}}``."""
    counts: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for stage in outcome["stages"]:
        counts[stage["kind"]] += 1
        seconds[stage["kind"]] += stage["seconds"]
    stages = {kind: {"count": count, "seconds": round(seconds[kind], 3)} for kind, count in counts.items()}
    return {**{key: outcome[key] for key in ("from", "to", "generation", "epoch", "pending", "notes")}, "stages": stages}


def chunks(collections: Iterable[str], size: int) -> list[list[str]]:
    """Split ``collections`` in order into lists of at most ``size``."""
    names = list(collections)
    return [names[start : start + size] for start in range(0, len(names), size)]
