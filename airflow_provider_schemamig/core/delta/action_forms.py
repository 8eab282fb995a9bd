"""The form of a log's actions, as far as anything here relies on it: a writer can put any JSON there, and it is that table's damage.

What Delta's own reader makes of a number or a boolean where a text belongs is made of it here, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from airflow_provider_schemamig.core.delta.names import MAPPING_ID, PHYSICAL_NAME
from airflow_provider_schemamig.core.delta.properties import MAPPING_MAX_ID
from airflow_provider_schemamig.core.schema.delta_json import COMMENT_KEY
from airflow_provider_schemamig.core.schema.delta_rules.table_features import CLUSTERING_DOMAIN

Form = Callable[[Any], bool]
_NUMBER = re.compile(r"[0-9]{1,18}")


def is_text(value: Any) -> bool:
    """Return whether a value is text that can be written: half a pair of surrogates cannot, and JSON can hold it."""
    if not isinstance(value, str):
        return False
    try:
        return value.isascii() or bool(value.encode()) or True
    except UnicodeEncodeError:
        return False


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_size(value: Any) -> bool:
    return _is_whole(value) or (isinstance(value, float) and value.is_integer())


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_scalar(value: Any) -> bool:
    return value is None or is_text(value) or isinstance(value, bool | int | float)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(map(is_text, value))


def _are_scalars(value: Any) -> bool:
    return isinstance(value, dict) and all(map(is_text, value)) and all(map(_is_scalar, value.values()))


def is_vector(value: Any) -> bool:
    """Return whether a deletion vector says where it lies; an empty one is none."""
    return isinstance(value, dict) and (not value or all(isinstance(value.get(key), str) for key in ("storageType", "pathOrInlineDv")))


_PATH: Final[Mapping[str, Form]] = MappingProxyType({"path": lambda value: isinstance(value, str)})
_FILE: Final[Mapping[str, Form]] = MappingProxyType(
    {
        "partitionValues": _are_scalars,
        "size": _is_size,
        "dataChange": _is_flag,
        "stats": lambda value: isinstance(value, str),
        "deletionVector": is_vector,
        "tags": _is_object,
    }
)
#: What every action of a kind has, and what it may have; null is as if it were not there.
_REQUIRED: Final[Mapping[str, Mapping[str, Form]]] = MappingProxyType(
    {
        "protocol": {"minReaderVersion": _is_whole, "minWriterVersion": _is_whole},
        "metaData": {"id": is_text, "schemaString": is_text},
        "domainMetadata": {"domain": is_text, "configuration": is_text},
        "txn": {"appId": is_text, "version": _is_whole},
        "add": _PATH,
        "remove": _PATH,
        "cdc": _PATH,
        "sidecar": _PATH,
    }
)
_OPTIONAL: Final[Mapping[str, Mapping[str, Form]]] = MappingProxyType(
    {
        "protocol": {"readerFeatures": _are_texts, "writerFeatures": _are_texts},
        "metaData": {"configuration": _are_scalars, "partitionColumns": _are_texts, "description": _is_scalar, "format": _is_object},
        "domainMetadata": {"removed": _is_flag},
        "add": _FILE,
        "remove": _FILE,
    }
)


def fault_of(kind: str, action: Any) -> str | None:
    """Return why an action has another form than in Delta's protocol; None if it has that one. ``commitInfo`` may be anything."""
    if kind == "commitInfo":
        return None
    if not isinstance(action, dict):
        return f"its {kind} is no object"
    for name, is_form in _REQUIRED.get(kind, {}).items():
        if not is_form(action.get(name)):
            return f"its {kind} has no usable {name}"
    for name, is_form in _OPTIONAL.get(kind, {}).items():
        if (value := action.get(name)) is not None and not is_form(value):
            return f"its {kind} has no usable {name}"
    if kind == "metaData":
        return _metadata_fault(action)
    return _domain_fault(action) if kind == "domainMetadata" and not action.get("removed") else None


def are_usable(protocol: Any, metadata: Any, domains: Iterable[Any], txns: Iterable[Any] = ()) -> bool:
    """Return whether a table's state, as a file beside the log repeats it, is in the log's form."""
    known = [("protocol", protocol), ("metaData", metadata), *(("domainMetadata", domain) for domain in domains)]
    return not any(fault_of(kind, action) for kind, action in (*known, *(("txn", txn) for txn in txns)))


def plain(kind: str, action: Any) -> Mapping[str, Any]:
    """Return a faultless action as others take it: scalars are texts where texts belong, settings without a value are none."""
    match kind:
        case "commitInfo":
            return _plain_info(action)
        case "metaData":
            found = {**action, "configuration": _as_texts(action.get("configuration") or {}, keep_null=False)}
            return found if found.get("description") is None else {**found, "description": _as_text(found["description"])}
        case "add" | "remove" if action.get("partitionValues"):
            return {**action, "partitionValues": _as_texts(action["partitionValues"], keep_null=True)}
        case _:
            return dict(action)


def _plain_info(info: Any) -> Mapping[str, Any]:
    """Return a commit's info without fields of another form: its writer may say anything."""
    found = info if isinstance(info, dict) else {}
    forms: Mapping[str, Form] = {"operation": is_text, "operationParameters": _is_object}
    odd = {name for name, is_form in forms.items() if name in found and not is_form(found[name])}
    return {name: value for name, value in found.items() if name not in odd} if odd else found


def _as_texts(values: Mapping[str, Any], *, keep_null: bool) -> Mapping[str, Any]:
    if all(isinstance(value, str) for value in values.values()):
        return values
    return {name: None if value is None else _as_text(value) for name, value in values.items() if keep_null or value is not None}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _metadata_fault(action: Mapping[str, Any]) -> str | None:
    highest = (action.get("configuration") or {}).get(MAPPING_MAX_ID)
    if highest is not None and _NUMBER.fullmatch(str(highest)) is None:
        return f"its metaData has no usable {MAPPING_MAX_ID}"
    try:
        schema = json.loads(action["schemaString"])
        fault = next(_faults_of_type(schema), None) if isinstance(schema, dict) and schema.get("type") == "struct" else "it is no struct"
    except (ValueError, RecursionError) as error:  # the second: nested beyond the stack
        return f"its schema cannot be read ({error})"
    return None if fault is None else f"its schema cannot be read: {fault}"


def _faults_of_type(data_type: Any) -> Iterator[str]:
    """Yield what in a type has another form than Spark's. Types that have no form of their own are judged by who reads them."""
    if isinstance(data_type, str):
        return
    match data_type:
        case {"type": "struct", "fields": list(fields)}:
            for field in fields:
                yield from _faults_of_field(field)
        case {"type": "array", "elementType": element, "containsNull": bool()}:
            yield from _faults_of_type(element)
        case {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": bool()}:
            yield from _faults_of_type(key)
            yield from _faults_of_type(value)
        case {"type": str(name)} if name not in ("struct", "array", "map"):
            return
        case _:
            yield "a type in it has another form"


def _faults_of_field(field: Any) -> Iterator[str]:
    if not isinstance(field, dict) or not is_text(field.get("name")) or not isinstance(field.get("nullable"), bool):
        yield "a field in it has no name, or does not say whether it is nullable"
        return
    metadata = field.get("metadata")
    if metadata is not None:
        yield from _faults_of_field_metadata(metadata)
    yield from _faults_of_type(field.get("type"))


def _faults_of_field_metadata(metadata: Any) -> Iterator[str]:
    if not isinstance(metadata, dict):
        yield "the metadata of a field in it is no object"
        return
    forms: Sequence[tuple[str, Form]] = ((MAPPING_ID, _is_size), (PHYSICAL_NAME, is_text), (COMMENT_KEY, _is_scalar))
    given = ((name, metadata.get(name), is_form) for name, is_form in forms)
    yield from (f"a field in it has no usable {name}" for name, value, is_form in given if value is not None and not is_form(value))


def _domain_fault(action: Mapping[str, Any]) -> str | None:
    """Return why the clustering columns, which are kept in a domain, cannot be read. Who needs another domain judges it."""
    if action["domain"] != CLUSTERING_DOMAIN:
        return None
    try:
        is_form = _is_clustering(json.loads(action["configuration"]))
    except (ValueError, RecursionError):
        is_form = False
    return None if is_form else f"the domain {CLUSTERING_DOMAIN} has no usable configuration"


def _is_clustering(found: Any) -> bool:
    columns = found.get("clusteringColumns") if isinstance(found, dict) else None
    return isinstance(columns, list) and all(map(_are_texts, columns)) and all(columns)
