"""A scratch table: a Delta table of one commit that lists files of another table, so that Spark reads exactly these.

Spark prunes, applies deletion vectors and maps columns by itself, which reading the Parquet files would not. Nothing is copied: paths are
absolute. A scratch table is read at version 0 and deleted by whoever made it.
"""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from collections.abc import Sequence
from urllib.parse import quote

from airflow_provider_schemamig.core.delta.actions import RawAction, encode_actions
from airflow_provider_schemamig.core.delta.log.head import Head
from airflow_provider_schemamig.core.delta.log.listing import commit_key
from airflow_provider_schemamig.core.delta.properties import MAPPING_MAX_ID
from airflow_provider_schemamig.core.schema.delta_rules.table_features import MAPPING_MODE
from airflow_provider_schemamig.core.storage import Location, Store, spark_uri

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|/")
_UUID_CHARACTERS = 20
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"


def scratch_table(env_store: Store, key: str, source: Head, files: Sequence[RawAction]) -> Location:
    """Write a table of ``files`` (``add`` actions of ``source``, whose schema they are read with) below ``key``; where it lies.

    Its folder is named by its content: written again it is the same table, and a session that remembers another one under ``key`` is not
    misled. The caller deletes it with ``env_store.delete_tree(key)``.
    """
    actions = [{"protocol": source.protocol}, *({"add": listed(source.location, file)} for file in files)]
    content = hashlib.sha256(encode_actions([*actions, {"metaData": source.metadata}])).hexdigest()[:32]
    info = {"timestamp": 0, "operation": "SCHEMAMIG SCRATCH", "operationParameters": {}}
    actions[1:1] = [{"metaData": _metadata(source, content)}]
    env_store.put(f"{key}/{content}/{commit_key(0)}", encode_actions([{"commitInfo": info}, *actions]))
    return env_store.location.child(*key.split("/"), content)


def _metadata(source: Head, content: str) -> RawAction:
    """Return the metaData of the source, which is another table, without its properties but for those of column mapping.

    Readers need only those; others ask for more (row ids...).
    """
    kept = {name: value for name, value in source.properties.items() if name in (MAPPING_MODE, MAPPING_MAX_ID)}
    return {**source.metadata, "id": str(uuid.UUID(content)), "configuration": kept}


def listed(table: Location, file: RawAction) -> RawAction:
    """Return an ``add`` action that another table can list. Statistics and row ids are the source's own business."""
    kept = {name: file[name] for name in ("partitionValues", "size", "modificationTime")}
    found = {"path": _uri(table, file["path"]), **kept, "dataChange": True}
    vector = file.get("deletionVector")
    if vector:
        found["deletionVector"] = _absolute_vector(table, vector)
    return found


def _absolute_vector(table: Location, vector: RawAction) -> RawAction:
    """Return a deletion vector's descriptor with an absolute path.

    Kind ``u`` is ``<random prefix><uuid in Z85>`` in the table's folder, and becomes ``p``, an absolute path; ``i`` lies in the log.
    """
    kind, text = vector["storageType"], vector["pathOrInlineDv"]
    if kind != "u":
        return {**vector, "pathOrInlineDv": spark_uri(text)} if kind == "p" else vector
    prefix, encoded = text[:-_UUID_CHARACTERS], text[-_UUID_CHARACTERS:]
    name = f"deletion_vector_{uuid.UUID(bytes=_z85_decode(encoded))}.bin"
    return {**vector, "storageType": "p", "pathOrInlineDv": _uri(table, f"{quote(prefix)}/{name}" if prefix else name)}


def _z85_decode(text: str) -> bytes:
    """Decode ZeroMQ's base 85 with Python's, which differs in the alphabet alone (``base64.z85decode`` comes with Python 3.13)."""
    return base64.b85decode(text.translate(str.maketrans(_Z85, _B85)))


def _uri(table: Location, path: str) -> str:
    """Return an action's path, percent-encoded as it is, as an absolute URI; our locations are not encoded."""
    if _ABSOLUTE.match(path):
        return spark_uri(path)
    scheme, _, rest = spark_uri(table.uri).partition("://")
    authority, slash, folder = rest.partition("/")
    return f"{scheme}://{authority}{slash}{quote(folder)}/{path}"
