"""Content-addressed JSON documents: ``_schemamig/plans/<digest>.json``, written once and never changed.

A deployment row names its plan by digest, so what promotion runs is byte for byte what preflight printed.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged, PlanMissing
from airflow_provider_schemamig.core.storage import ObjectExists, ObjectMissing
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot

PLANS = f"{EnvironmentRoot.SYSTEM_FOLDER}/plans"

_DIGEST = re.compile(r"[0-9a-f]{64}")


def digest(text: str) -> str:
    """Return the sha256 of a JSON value's canonical text, 64 hex digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def write_plan(env: EnvironmentRoot, text: str) -> str:
    """Store the canonical text of a JSON value and return its digest. Writing it again, or racing another writer, changes nothing."""
    name = digest(text)
    try:
        env.store().put_if_absent(_key(name), text.encode())
    except ObjectExists:
        read_plan(env, name)  # the same content by its name; a damaged one must not be taken for ours
    return name


def read_plan(env: EnvironmentRoot, name: str) -> Any:
    """Return the document of that digest. Raises PlanMissing; LedgerDamaged if its content is not what its name says."""
    if _DIGEST.fullmatch(name) is None:
        raise PlanMissing(digest=name)
    try:
        data = env.store().get(_key(name))
    except ObjectMissing as error:
        raise PlanMissing(digest=name) from error
    if hashlib.sha256(data).hexdigest() != name:
        raise LedgerDamaged(where=_key(name), reason="its content has another digest")
    return json.loads(data)


def _key(name: str) -> str:
    return f"{PLANS}/{name}.json"
