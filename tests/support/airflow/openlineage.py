"""OpenLineage's own JSON schemas, for what it is told."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import referencing

SCHEMAS = Path(__file__).parents[2] / "data" / "openlineage"
#: The facets that we make; the provider makes others.
OURS = ("columnLineage", "lifecycleStateChange", "schema", "symlinks", "test", "version")
EVENT = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"


@functools.cache
def registry() -> referencing.Registry[Any]:
    found = [json.loads(path.read_text()) for path in SCHEMAS.glob("*.json")]
    return referencing.Registry().with_resources([(schema["$id"], referencing.Resource.from_contents(schema)) for schema in found])


def checked(event: dict[str, Any]) -> dict[str, Any]:
    """The event, which keeps the schema of events, as each of its facets keeps its own."""
    _validate(event, EVENT)
    for name, facet in facets(event):
        if name in OURS:
            _validate(facet, facet["_schemaURL"])
    return event


def _validate(value: Any, schema: str) -> None:
    jsonschema.Draft202012Validator({"$ref": schema}, registry=registry()).validate(value)


def facets(event: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for owner in (event["run"], event["job"], *event.get("inputs", ()), *event.get("outputs", ())):
        yield from (owner.get("facets") or {}).items()
