"""A copy of the ledger and its plans in a folder, and the way back (``ledger backup`` and ``ledger restore``).

Byte for byte, so that versions and as-of stay what they were. The manifest is written last: without it a backup does not exist.
A restore never overwrites anything, and the files without which the ledger does not open go last, so it may be killed and run again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.jsonable import canonical
from airflow_provider_schemamig.core.ledger.blobs import PLANS
from airflow_provider_schemamig.core.ledger.errors import BackupUnusable
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.ledger.table import FOLDER, LOG
from airflow_provider_schemamig.core.storage import ObjectExists, ObjectMissing, Store

_MANIFEST = "backup.json"
_LAST_CHECKPOINT = f"{LOG}/_last_checkpoint"


@dataclass(frozen=True, slots=True)
class Backup:
    """``version``: the ledger version it holds; ``files``: how many."""

    version: int
    files: int


def backup(env: Environment, folder: str) -> Backup:
    """Copy the ledger as of now to ``folder`` (a path or URI without a backup in it). Raises BackupUnusable, and as reading does."""
    reader = LedgerReader(env)
    version = reader.state().version
    target = Environment.open(folder, env.options).store()
    if target.exists(_MANIFEST):
        raise BackupUnusable(folder=folder, reason="there is a backup already")
    source = env.store()
    checksums = {}
    for key in _keys(reader, source, version):
        data = source.get(key)
        target.put(key, data)
        checksums[key] = hashlib.sha256(data).hexdigest()
    target.put(_MANIFEST, canonical({"version": version, "files": checksums}).encode())
    return Backup(version, len(checksums))


def restore(env: Environment, folder: str) -> Backup:
    """Bring a backup to an environment that has no ledger (or is half-way through restoring this very backup).

    Raises BackupUnusable if the backup is incomplete or altered, or another ledger is there. Tables are not touched: what was done to
    them after the backup shows as drift.
    """
    source = Environment.open(folder, env.options).store()
    version, checksums = _manifest(source, folder)
    store = env.store()
    there = {f"{LOG}/{name}" for name in store.names(LOG)}
    if not there <= checksums.keys():
        raise BackupUnusable(folder=folder, reason=f"{env.location.uri} has another ledger")
    for key, checksum in checksums.items():  # all of it is read before anything is written
        _checked(source, folder, key, checksum)
    for key in sorted(checksums, key=_restore_order):
        data = _checked(source, folder, key, checksums[key])
        try:
            store.put_if_absent(key, data)
        except ObjectExists as error:
            if store.get(key) != data:
                raise BackupUnusable(folder=folder, reason=f"{key} is there with other content") from error
    return Backup(version, len(checksums))


def _keys(reader: LedgerReader, store: Store, version: int) -> Iterator[str]:
    yield from (f"{FOLDER}/{name}" for name in reader.table.files())
    yield from (f"{PLANS}/{name}" for name in store.names(PLANS))
    yield from (f"{LOG}/{name}" for name in store.names(LOG) if name[:20].isdigit() and int(name[:20]) <= version)
    if store.exists(_LAST_CHECKPOINT) and reader.table.last_checkpoint() <= version:
        yield _LAST_CHECKPOINT


def _restore_order(key: str) -> tuple[int, int]:
    """Data and plans, then the log from its end backwards: it opens only once its beginning is there."""
    if not key.startswith(LOG):
        return (0, 0)
    name = key.rsplit("/", 1)[1]
    if not name[:20].isdigit():
        return (2, 0)
    return (1, -2 * int(name[:20]) + ("checkpoint" in name))


def _manifest(source: Store, folder: str) -> tuple[int, dict[str, str]]:
    try:
        document = json.loads(source.get(_MANIFEST))
        version, checksums = int(document["version"]), dict(document["files"])
    except ObjectMissing as error:
        raise BackupUnusable(folder=folder, reason=f"it has no {_MANIFEST}, so it was never finished") from error
    except (ValueError, KeyError, TypeError) as error:
        raise BackupUnusable(folder=folder, reason=f"its {_MANIFEST} is not one ({error})") from error
    for key in checksums:
        if not key.startswith((f"{FOLDER}/", f"{PLANS}/")) or ".." in key.split("/"):
            raise BackupUnusable(folder=folder, reason=f"its {_MANIFEST} names {key!r}, which is no part of a ledger")
    return version, checksums


def _checked(source: Store, folder: str, key: str, checksum: str) -> bytes:
    try:
        data = source.get(key)
    except ObjectMissing as error:
        raise BackupUnusable(folder=folder, reason=f"{key} is missing") from error
    if hashlib.sha256(data).hexdigest() != checksum:
        raise BackupUnusable(folder=folder, reason=f"{key} was altered")
    return data
