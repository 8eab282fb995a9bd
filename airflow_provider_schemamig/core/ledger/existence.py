"""Is there an environment at a place, and may one be made there? A URI with a typo must not become a new, empty lake."""

from __future__ import annotations

import contextlib
import os.path
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from airflow_provider_schemamig.core.ledger.errors import NoEnvironment
from airflow_provider_schemamig.core.ledger.numbers import shard_folders
from airflow_provider_schemamig.core.storage import InvalidLocation, Location
from airflow_provider_schemamig.core.storage.errors import A_FILE_ON_THE_WAY
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.exceptions import SchemamigError

_LOG = "_delta_log"
#: What every release folder has. An environment in one would lie in the repository that the folder is part of.
_RELEASE = "release.toml"
#: How far below a place another environment is looked for, and by how many listings at most.
_LEVELS, _LISTINGS = 3, 200
_AFTER_THE_LEDGER = ("history", "keys", "nodes", "preparing", "replicas", "reports")


def require_environment(env: EnvironmentRoot, *, create: bool = False) -> None:
    """Raise NoEnvironment unless there is one, or one is wanted (``create``) at a place that is free for it and never had one."""
    if _has_ledger(env):
        return
    missing = no_environment(env)
    if not create or _is_taken(missing):
        raise missing
    missing.remains = (*missing.remains, *shard_folders(env))
    missing.inside = next((f"{env.location.uri}/{folder}" for folder in _folders(env) if _has_ledger(env, f"{folder}/")), None)
    if missing.remains or missing.inside is not None:
        raise missing


def require_free_place(env: EnvironmentRoot) -> None:
    """Raise NoEnvironment where a ledger can be neither made nor brought back: in a table's or a release's folder, in another environment.

    Where one had been, it may come back whatever was made around it since.
    """
    if not _has_ledger(env) and _is_taken(missing := no_environment(env)):
        raise missing


def _is_taken(missing: NoEnvironment) -> bool:
    return not missing.remains and (missing.table is not None or missing.is_release or missing.around is not None)


def no_environment(env: EnvironmentRoot) -> NoEnvironment:
    """Return what to tell of a place without a ledger: also what is there instead, as far as that can be read.

    Raises InvalidLocation where there can be none.
    """
    if (path := env.location.local_path) is not None and any(map(os.path.isfile, (path, *path.parents))):
        raise InvalidLocation(uri=env.location.uri, rule=A_FILE_ON_THE_WAY)
    missing = NoEnvironment(uri=env.location.uri)
    with contextlib.suppress(SchemamigError):
        missing.remains = _remains(env)
    with contextlib.suppress(SchemamigError):  # a folder above may be nobody's to list: what was seen before that counts
        missing.is_release = env.store().exists(_RELEASE)
        for here in (env, *_parents(env)):
            if missing.table is None and _is_table(here):
                missing.table = here.location.uri
            if here is not env and _has_ledger(here):
                missing.around = here.location.uri
                break
    return missing


def _remains(env: EnvironmentRoot) -> tuple[str, ...]:
    """Return what an environment makes after its ledger: where it is found, the ledger was lost, and its processes may live."""
    return tuple(f"{env.SYSTEM_FOLDER}/{name}" for name in env.store().folders(env.SYSTEM_FOLDER) if name in _AFTER_THE_LEDGER)


def _folders(env: EnvironmentRoot) -> Iterator[str]:
    """Yield the folders below the place, those that are near first: not more than a person would make by mistake."""
    store, found = env.store(), deque([""])
    for _ in range(_LISTINGS):
        if not found:
            return
        here = found.popleft()
        for name in store.folders(here):
            if "=" not in name and not name.startswith(("_", ".")):
                yield f"{here}{name}"
                if here.count("/") + 1 < _LEVELS:
                    found.append(f"{here}{name}/")


def _is_table(env: EnvironmentRoot) -> bool:
    return bool(env.store().names(_LOG))


def _has_ledger(env: EnvironmentRoot, below: str = "") -> bool:
    return bool(env.store().names(f"{below}{env.SYSTEM_FOLDER}/ledger/{_LOG}"))


def _parents(env: EnvironmentRoot) -> Iterator[EnvironmentRoot]:
    """Yield the folders that the place is in, also those behind a symbolic link."""
    here = env.location.local_path
    places = [env.location]
    if here is not None and (real := here.resolve()) != here:
        places.append(Location.parse(str(real)))
    for place in places:
        location = place.parent
        while location is not None:
            yield replace(env, location=location, on_write=None)
            location = location.parent
