"""Which environments the page shows: every connection of type schemamig, and those that the configuration names.

Runs in the api-server. What a connection holds of credentials goes to the process that reads, and nowhere else.
"""

from __future__ import annotations

import base64
import functools
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from airflow.models import Connection
from airflow.models.dag import DagTag
from airflow.models.dagrun import DagRun
from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.sdk.exceptions import AirflowException
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_provider_schemamig import config
from airflow_provider_schemamig.credentials import blank_typed
from airflow_provider_schemamig.exceptions import SchemamigError
from airflow_provider_schemamig.hooks.schemamig import SchemamigHook, is_place, read_settings

_FROM_VARIABLES = "AIRFLOW_CONN_"
_OF_RUN = "run."
#: Of the DAGs that work on environments.
TAG = "schemamig"
#: What the configuration and the connections say is looked up again after so many seconds: a backend of secrets may be far away.
_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Place:
    """One environment. ``key``: what addresses call it; ``uri``: as it may be shown; ``given``: what a DAG's parameter takes; ``location``:
    what is opened; ``refused``: why it cannot be."""

    key: str
    title: str
    uri: str
    given: str
    location: str = field(repr=False)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    refused: SchemamigError | None = None


def places() -> list[Place]:
    """Return every environment that is known, by key."""
    found: dict[str, Place] = {}
    for place in _all():
        found.setdefault(place.key, place)
    uris = {place.uri for place in found.values() if place.key == place.given}
    return [place for _, place in sorted(found.items()) if place.key == place.given or place.uri not in uris]


def place_of(key: str) -> Place | None:
    """Return the environment of that key; None where there is none."""
    if key.startswith(_OF_RUN):
        return _of_run(key)
    return next((place for place in _all() if place.key == key), None)


def key_of_run(dag_id: str, run_id: str) -> str:
    """Return the key of the environment of a DAG run. It is made of the run alone, whatever connection or URI that was given."""
    return _OF_RUN + base64.urlsafe_b64encode(f"{dag_id}\n{run_id}".encode()).decode().rstrip("=")


def run_of(key: str) -> tuple[str, str] | None:
    """Return DAG and run of such a key; None for other keys."""
    if not key.startswith(_OF_RUN):
        return None
    text = key.removeprefix(_OF_RUN)
    try:
        dag_id, _, run_id = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode().partition("\n")
    except ValueError:
        return None
    return (dag_id, run_id) if dag_id and run_id and "\0" not in dag_id + run_id else None


def environment_of_run(dag_id: str, run_id: str) -> str | None:
    """Return the environment that a run's tasks were given, else the one in the form of a DAG of ours. None if there is none."""
    with create_session() as session:
        rendered = RenderedTaskInstanceFields
        query = select(rendered.rendered_fields).where(rendered.dag_id == dag_id, rendered.run_id == run_id)
        for fields in session.scalars(query):
            if isinstance(fields, dict) and isinstance(fields.get("environment"), str) and fields["environment"]:
                return str(fields["environment"])
        # Of our own DAGs alone: whoever may send any form could have any place opened by the api-server.
        ours = select(DagTag.dag_id).where(DagTag.dag_id == dag_id, DagTag.name == TAG).exists()
        conf = session.scalar(select(DagRun.conf).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id, ours))
    found = conf.get("environment") if isinstance(conf, dict) else None
    return str(found) if found else None


def _all() -> tuple[Place, ...]:
    return _looked_up(int(time.monotonic() / _SECONDS))


@functools.lru_cache(maxsize=1)
def _looked_up(_: int) -> tuple[Place, ...]:
    return tuple(_configured())


def _configured() -> Iterator[Place]:
    with create_session() as session:
        for connection in session.scalars(select(Connection).where(Connection.conn_type == SchemamigHook.conn_type)):
            yield _of_connection(connection)
    for name in os.environ:
        if name.startswith(_FROM_VARIABLES):
            yield from _named(name.removeprefix(_FROM_VARIABLES).lower())
    for given in (config.default_environment(), config.default_origin()):
        yield from [_of_uri(given)] if is_place(given) else _named(given)


def _named(conn_id: str) -> Iterator[Place]:
    try:
        connection = Connection.get_connection_from_secrets(conn_id)
    except (AirflowException, ValueError):  # it is not there, or cannot be read; those of other types are none of ours
        return
    if connection.conn_type == SchemamigHook.conn_type:
        yield _of_connection(connection)


def _of_connection(connection: Connection) -> Place:
    name = str(connection.conn_id)
    try:
        settings = read_settings(connection)
    except SchemamigError as refused:
        return Place(name, name, "", name, "", refused=refused)
    return Place(name, name, blank_typed(settings.environment_uri), name, settings.environment_uri, settings.storage_options)


def _of_uri(uri: str, key: str | None = None) -> Place:
    shown = blank_typed(uri)
    return Place(key or _key_of_uri(shown), shown.rstrip("/").rsplit("/", 1)[-1] or shown, shown, uri, uri)


def _key_of_uri(uri: str) -> str:
    return "uri." + base64.urlsafe_b64encode(uri.encode()).decode().rstrip("=")


def _of_run(key: str) -> Place | None:
    run = run_of(key)
    given = environment_of_run(*run) if run is not None else None
    if given is None:
        return None
    if is_place(given):
        same = [place for place in _all() if place.given == given] or [place for place in _all() if place.uri == given]
        return same[0] if len(same) == 1 else _of_uri(given, key)  # several connections with one URI are several stores
    return next(iter(_named(given)), None)
