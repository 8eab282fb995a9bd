"""One commit of a Delta log: its actions, decoded only as far as somebody asks.

A commit can hold a hundred thousand ``add`` actions; who wants to know its metaData should not pay for them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from airflow_provider_schemamig.core.delta.action_forms import fault_of, plain
from airflow_provider_schemamig.core.delta.errors import LogDamaged
from airflow_provider_schemamig.core.names import RESERVED_PREFIX
from airflow_provider_schemamig.core.schema.delta_rules.table_features import CLUSTERING_DOMAIN

RawAction = Mapping[str, Any]
#: Delta's operations that only lay rows out anew. After a statement Delta may run one by itself (auto compaction), with all settings of the
#: statement, so that its commit has the statement's user metadata.
REARRANGING = frozenset({"OPTIMIZE", "REORG"})
#: Operations whose commits put files, or a schema, back that others wrote long before.
RESTORING = frozenset({"RESTORE", "CLONE"})
#: Whatever says of itself that it is of then, or later, is in another unit.
_YEAR_10000 = 253_402_300_800_000
#: What makes a data file the same file: its path, decoded (writers encode differently), and its deletion vector.
FileId = tuple[str, str]


def json_object(text: object) -> dict[str, Any] | None:
    """Return the JSON object that a writer put into a text field; None for whatever else stands there, also one nested beyond the stack."""
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def checked(kind: str, action: Any, uri: str, where: str) -> RawAction:
    """Return an action of the log at ``uri`` as others take it. Raises LogDamaged for another form. ``where``: its file, in words."""
    if (fault := fault_of(kind, action)) is not None:
        raise LogDamaged(uri=uri, reason=f"{where}: {fault}")
    return plain(kind, action)


def file_id(file: RawAction) -> FileId:
    """Return the identity of an ``add`` or ``remove`` action: a file with another deletion vector is another file."""
    vector: Mapping[str, Any] = file.get("deletionVector") or {}
    identity = f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector.get('offset')}" if vector else ""
    return unquote(str(file["path"]), errors="surrogateescape"), identity


def size_bytes(file: RawAction) -> int:
    """Return the size of an ``add`` action's file; 0 where its writer left it away."""
    return int(file.get("size") or 0)


class LogCommit:
    """Commit ``version`` of the table at ``uri``, from the bytes of its JSON file. Actions are Delta's own objects, all keys kept.

    ``name``: of the file, where it is no commit but a checkpoint in that form.
    """

    def __init__(self, version: int, data: bytes, uri: str, name: str | None = None) -> None:
        self.version = version
        self._data = data
        self._uri = uri
        self._where = name or f"version {version}"

    @property
    def info(self) -> RawAction:
        """Return ``commitInfo``, or an empty object."""
        found = self.actions("commitInfo")
        return found[0] if found else {}

    @property
    def milliseconds(self) -> int | None:
        """Return when the commit was made, in milliseconds since 1970, as it says itself; None if it does not."""
        found = self.info.get("inCommitTimestamp", self.info.get("timestamp"))
        return found if isinstance(found, int) and 0 <= found < _YEAR_10000 else None

    @property
    def user_metadata(self) -> str | None:
        """Return what the commit's writer says of it. None if it only rearranges rows: its text may be that of the statement before it."""
        return None if self.info.get("operation") in REARRANGING else self.info.get("userMetadata")

    @property
    def about(self) -> dict[str, Any] | None:
        """Return what a commit of schemamig's own work says of itself; None for everybody else's, and for those of handles."""
        about = (json_object(self.user_metadata) or {}).get(RESERVED_PREFIX)
        is_ours = isinstance(about, dict) and isinstance(about.get("action"), str) and isinstance(about.get("generation", 0), int)
        return about if is_ours else None

    @property
    def protocol(self) -> RawAction | None:
        return self._last("protocol")

    @property
    def metadata(self) -> RawAction | None:
        return self._last("metaData")

    @property
    def adds(self) -> Sequence[RawAction]:
        return self.actions("add")

    @property
    def removes(self) -> Sequence[RawAction]:
        return self.actions("remove")

    @property
    def txns(self) -> Sequence[RawAction]:
        """Return the transaction identifiers: ``appId``, ``version``, ``lastUpdated``."""
        return self.actions("txn")

    @property
    def domains(self) -> Sequence[RawAction]:
        return self.actions("domainMetadata")

    @property
    def clustering(self) -> RawAction | None:
        """Return the domain that names the table's clustering columns."""
        return next((domain for domain in reversed(self.domains) if domain.get("domain") == CLUSTERING_DOMAIN), None)

    @property
    def changes_table(self) -> bool:
        """Return whether it may have changed what the table is: schema, properties, features, clustering."""
        return not (self.metadata is None and self.protocol is None and self.clustering is None)

    @functools.cached_property
    def has_files(self) -> bool:
        """Return whether the commit adds a file, for whatever reason."""
        return any(self._is(line, "add") for line in self._lines_with("add"))

    @property
    def restores(self) -> bool:
        """Return whether it brings back what was: its files, added by it or not, are older than it, and may have other columns."""
        return self.info.get("operation") in RESTORING

    @functools.cached_property
    def changes_rows(self) -> bool:
        """Return whether the commit adds or removes rows: not if it only rearranges them (``dataChange`` false), nor if it has none."""
        return any(file.get("dataChange", True) for file in self._files())

    def _files(self) -> Iterator[RawAction]:
        for kind in ("add", "remove"):
            yield from self._each(kind)

    def actions(self, kind: str) -> Sequence[RawAction]:
        """Return the actions of one kind, in the order of the file; one that is null is none, as Delta reads it. Raises LogDamaged."""
        return tuple(self._each(kind))

    def _each(self, kind: str) -> Iterator[RawAction]:
        for line in self._lines_with(kind):
            action = self._decode(line).get(kind)
            if action is not None:
                yield checked(kind, action, self._uri, self._where)

    def _last(self, kind: str) -> RawAction | None:
        found = self.actions(kind)
        return found[-1] if found else None

    def _lines_with(self, kind: str) -> list[bytes]:
        token = b'"%s"' % kind.encode()
        return [line for line in self._lines if token in line] if token in self._data else []

    @functools.cached_property
    def _lines(self) -> list[bytes]:
        return [line for line in self._data.split(b"\n") if line.strip()]

    def _is(self, line: bytes, kind: str) -> bool:
        return line.startswith(b'{"%s"' % kind.encode()) or kind in self._decode(line)

    def _decode(self, line: bytes) -> RawAction:
        try:
            action = json.loads(line)
        except (ValueError, RecursionError) as error:  # the second: nested beyond the stack
            raise LogDamaged(uri=self._uri, reason=f"{self._where} is not JSON ({error})") from error
        return action if isinstance(action, dict) else {}


def encode_actions(actions: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the content of a commit file. Not ASCII only, as Spark writes it."""
    return "".join(json.dumps(action, separators=(",", ":"), ensure_ascii=False) + "\n" for action in actions).encode()
