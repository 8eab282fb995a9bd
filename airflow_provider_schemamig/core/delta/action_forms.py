"""The form of a log's actions, as far as anything here relies on it: a writer can put any JSON there, and it is that table's damage."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

Form = Callable[[Any], bool]


def _is(*kinds: type) -> Form:
    return lambda value: isinstance(value, kinds) and not (isinstance(value, bool) and bool not in kinds)


def _list_of(kind: type) -> Form:
    return lambda value: isinstance(value, list | tuple) and all(isinstance(item, kind) for item in value)


def _texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str | None) for item in value.values())


def is_vector(value: Any) -> bool:
    """Return whether a deletion vector says where it lies; an empty one is none."""
    return isinstance(value, dict) and (not value or all(isinstance(value.get(key), str) for key in ("storageType", "pathOrInlineDv")))


_FILE: Final[Mapping[str, Form]] = MappingProxyType(
    {
        "partitionValues": _texts,
        "size": _is(int, float),
        "dataChange": _is(bool),
        "stats": _is(str),
        "deletionVector": is_vector,
        "tags": _is(dict),
    }
)
#: What every action of a kind has, and what it may have; null is as if it were not there.
_REQUIRED: Final[Mapping[str, Mapping[str, Form]]] = MappingProxyType(
    {
        "protocol": {"minReaderVersion": _is(int), "minWriterVersion": _is(int)},
        "metaData": {"id": _is(str), "schemaString": _is(str)},
        "domainMetadata": {"domain": _is(str), "configuration": _is(str)},
        "txn": {"appId": _is(str), "version": _is(int)},
        "add": {"path": _is(str)},
        "remove": {"path": _is(str)},
        "cdc": {"path": _is(str)},
        "sidecar": {"path": _is(str)},
    }
)
_OPTIONAL: Final[Mapping[str, Mapping[str, Form]]] = MappingProxyType(
    {
        "protocol": {"readerFeatures": _list_of(str), "writerFeatures": _list_of(str)},
        "metaData": {"configuration": _texts, "partitionColumns": _list_of(str), "description": _is(str), "format": _is(dict)},
        "domainMetadata": {"removed": _is(bool)},
        "commitInfo": {"operation": _is(str), "operationParameters": _is(dict)},
        "add": _FILE,
        "remove": _FILE,
    }
)


def fault_of(kind: str, action: Any) -> str | None:
    """Return why an action has another form than in Delta's protocol; None if it has that one."""
    if not isinstance(action, dict):
        return f"its {kind} is no object"
    for name, is_form in _REQUIRED.get(kind, {}).items():
        if not is_form(action.get(name)):
            return f"its {kind} has no usable {name}"
    for name, is_form in _OPTIONAL.get(kind, {}).items():
        if (value := action.get(name)) is not None and not is_form(value):
            return f"its {kind} has no usable {name}"
    return _schema_fault(action["schemaString"]) if kind == "metaData" else None


def _schema_fault(text: str) -> str | None:
    """Return why a schema cannot be read. Of nested types it asks nothing: who reads them does."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:  # the second: nested beyond the stack
        return f"its schema is not JSON ({error})"
    fields = found.get("fields") if isinstance(found, dict) else None
    if not isinstance(fields, list) or not all(isinstance(field, dict) and isinstance(field.get("name"), str) for field in fields):
        return "its schema is no list of fields"
    return None
