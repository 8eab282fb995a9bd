"""Is there an environment at a place, and may one be made there? A URI with a typo must not become a new, empty lake."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.errors import NoEnvironment
from airflow_provider_schemamig.exceptions import SchemamigError

_LOG = "_delta_log"
#: A table of an environment lies at ``<root>/<collection>/<shard>``.
_DEPTH = 2


def require_environment(env: Environment, *, create: bool = False) -> None:
    """Raises NoEnvironment unless there is one, or one is wanted (``create``) at a place that is free for it."""
    if _has_ledger(env):
        return
    missing = no_environment(env)
    if not create or missing.is_table or missing.around is not None:
        raise missing


def no_environment(env: Environment) -> NoEnvironment:
    """What to tell of a place without a ledger: also what is there instead, as far as that can be read."""
    missing = NoEnvironment(uri=env.location.uri)
    with contextlib.suppress(SchemamigError):
        missing.is_table = bool(env.store().names(_LOG))
        missing.around = next((found.location.uri for found in _parents(env) if _has_ledger(found)), None)
    return missing


def _has_ledger(env: Environment) -> bool:
    return bool(env.store().names(f"{env.SYSTEM_FOLDER}/ledger/{_LOG}"))


def _parents(env: Environment) -> Iterator[Environment]:
    location = env.location
    for _ in range(_DEPTH):
        parent = location.parent
        if parent is None:
            return
        location = parent
        yield replace(env, location=location, on_write=None)
