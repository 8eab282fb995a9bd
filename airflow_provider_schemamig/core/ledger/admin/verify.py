"""Is the ledger sound? Everything that must hold, said as findings; works on damaged ledgers and says what is damaged.

Nothing here stops at the first finding or writes anything. This file looks at the ledger's own
files; ``verify_rows`` at what is stored in them, ``verify_tables`` at what lies in the environment.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise

from airflow_provider_schemamig.core.ledger.admin.findings import LedgerFinding
from airflow_provider_schemamig.core.ledger.admin.verify_rows import check_rows
from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.ledger.table import FOLDER, LOG


def verify(reader: LedgerReader) -> tuple[LedgerFinding, ...]:
    """Return all that is wrong with the ledger, files first; nothing if it is sound.

    Raises NoEnvironment and LedgerTooNew, which are no damage.
    """
    if not reader.exists():
        reader.state()
    damaged = tuple(_log_findings(reader))
    if not damaged:
        try:
            version = reader.table.head()
        except LedgerDamaged as error:
            return (LedgerFinding("unreadable_log", LOG, error.reason),)
        damaged = tuple(_data_findings(reader))
    if damaged:
        return damaged  # what the rest would find only follows from the holes
    return check_rows(reader.env, version, reader.table.scan())


def _log_findings(reader: LedgerReader) -> Iterator[LedgerFinding]:
    store = reader.env.store()
    versions = []
    for name in store.names(LOG):
        if not (name.endswith(".json") and name[:20].isdigit() and len(name) == 25):
            continue
        versions.append(int(name[:20]))
        try:
            actions = [json.loads(line) for line in store.get(f"{LOG}/{name}").splitlines()]
        except (ValueError, RecursionError) as error:
            yield LedgerFinding("unreadable_log", f"{LOG}/{name}", f"not JSON ({error})")
            continue
        if not any(isinstance(action, dict) and "commitInfo" in action for action in actions):
            yield LedgerFinding("unreadable_log", f"{LOG}/{name}", "it is not a whole commit")
    for before, after in pairwise(versions):
        if after != before + 1:
            yield LedgerFinding("log_gap", LOG, f"version {before} is followed by version {after}")


def _data_findings(reader: LedgerReader) -> Iterator[LedgerFinding]:
    try:
        reader.table.scan()
        return
    except LedgerDamaged as error:
        found = tuple(_bad_files(reader)) or (LedgerFinding("unreadable_data", FOLDER, error.reason),)
    yield from found


def _bad_files(reader: LedgerReader) -> Iterator[LedgerFinding]:
    for name in reader.table.files():
        where = f"{FOLDER}/{name}"
        if not reader.env.store().exists(where):
            yield LedgerFinding("data_missing", where, "the file is not there")
            continue
        try:
            reader.table.check_file(name)
        except LedgerDamaged as error:
            yield LedgerFinding("unreadable_data", where, error.reason)
