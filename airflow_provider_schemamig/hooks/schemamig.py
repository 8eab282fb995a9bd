"""The connection type ``schemamig``: where an environment is, how its storage is opened, and which Spark works on its rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.sdk.log import mask_secret

from airflow_provider_schemamig.config import DEFAULT_ENVIRONMENT
from airflow_provider_schemamig.core.spark.errors import SparkAddressUnusable, SparkSettingUnusable
from airflow_provider_schemamig.credentials import blank_typed, holds_userinfo, is_harmless, secrets_of
from airflow_provider_schemamig.exceptions import Refusal, SchemamigError

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from airflow_provider_schemamig.core.environment import Environment
    from airflow_provider_schemamig.core.progress import Listener
    from airflow_provider_schemamig.core.spark.runners import JobRunner

#: As a Spark connection: Spark inside the task's own process.
LOCAL_SPARK = "local"


class ConnectionMissing(Refusal):
    code = "connection_missing"
    message = "Airflow has no connection {conn_id!r}."
    next_action = "Add it (`airflow connections add {conn_id} ...`), or give the environment as a URI or an absolute path."
    conn_id: str


class ConnectionUnusable(Refusal):
    code = "connection_unusable"
    message = "the connection {conn_id!r} cannot be used: {problem}."
    next_action = "{remedy}"
    conn_id: str
    problem: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What a connection says. ``storage_options`` are those of both extras, with the credentials, and never printed; ``spark_conf`` has
    the JARs among the settings."""

    environment_uri: str
    spark_conn_id: str = LOCAL_SPARK
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    spark_conf: Mapping[str, str] = field(default_factory=dict)


class SchemamigHook(BaseHook):
    """Opens an environment from a connection of type ``schemamig``, or straight from its URI.

    :param schemamig_conn_id: connection id; or a URI (``s3://lake/prod``) or an absolute path, which need no connection:
        then storage options come from the process's own surroundings and Spark runs inside the task.
    :param who: in whose name the environment is worked on.
    :param spark_conf: settings for Spark beside the connection's, whose own come first; a server of Spark Connect has its own.
    :param listen: hears what Spark does, and how far it is, at a job's start and every second.
    """

    conn_name_attr = "schemamig_conn_id"
    default_conn_name = DEFAULT_ENVIRONMENT.default
    conn_type = "schemamig"
    hook_name = "schemamig environment"

    def __init__(
        self,
        schemamig_conn_id: str = default_conn_name,
        who: str | None = None,
        spark_conf: Mapping[str, str] = MappingProxyType({}),
        listen: Listener | None = None,
    ) -> None:
        super().__init__()
        self._more_conf = spark_conf
        self._listen = listen
        self.schemamig_conn_id = schemamig_conn_id
        self.who = who
        self._runner: JobRunner | None = None

    @cached_property
    def settings(self) -> Settings:
        """Read the settings. Raises ``ConnectionMissing`` or ``ConnectionUnusable``."""
        name: Any = self.schemamig_conn_id  # what a template or an XCom gave
        if not isinstance(name, str) or not name:
            remedy = "Give the environment as the id of a connection of type schemamig, as a URI or as an absolute path."
            raise ConnectionUnusable(conn_id=blank_typed(str(name)), problem="that is no text" if name else "it is empty", remedy=remedy)
        if is_place(name):
            return Settings(environment_uri=name)
        return read_settings(self._connection(name))

    @cached_property
    def environment(self) -> Environment:
        """Open the environment; nothing is read yet. Work in it that is paused ends with ``Paused``, so that no worker waits."""
        from airflow_provider_schemamig.core.environment import Environment

        found = Environment.open(self.settings.environment_uri, dict(self.settings.storage_options))
        return replace(found, waits=False, who=None if self.who is None else blank_typed(self.who))

    def get_conn(self) -> Environment:
        return self.environment

    def job_runner(self) -> JobRunner:
        """Return the runner of Spark jobs, made when the first stage needs one: in process, by spark-submit, or by Spark Connect."""
        if self._runner is None:
            from airflow_provider_schemamig.core.spark.watched import WatchedRunner

            made = self._make_runner(self.settings.spark_conn_id)
            self._runner = made if self._listen is None else WatchedRunner(made, self._listen)
        return self._runner

    def stop_spark(self) -> None:
        """End what the runner started: the task is over."""
        if self._runner is not None:
            self._runner.stop()

    def cancel_jobs(self) -> None:
        """Stop the job that is running, if any."""
        if self._runner is not None:
            self._runner.cancel()

    def test_connection(self) -> tuple[bool, str]:
        """Look at the ledger without writing anything: whether it can be read, and what release the environment is at."""
        from airflow_provider_schemamig.core.ledger.store import LedgerReader

        try:
            state = LedgerReader(self.environment).state_or_none()
            if state is None:
                return (
                    True,
                    f"{self.environment.location.uri} can be read and has no ledger yet; an upgrade with `create` makes one.",
                )
            release = state.release
        except SchemamigError as error:
            return False, str(error)
        at = f"release {release.version}" if release is not None else "no release yet"
        return True, f"{self.environment.location.uri} is at {at}."

    def _make_runner(self, spark_conn_id: str) -> JobRunner:
        from airflow_provider_schemamig.core.spark import runner_for
        from airflow_provider_schemamig.core.spark.runners import EmbeddedRunner

        conf = {**self._more_conf, **self.settings.spark_conf}
        if spark_conn_id == LOCAL_SPARK:
            return EmbeddedRunner(conf=conf, hears=self.log.log)
        kind = self._connection(spark_conn_id).conn_type
        try:
            if kind == "spark":
                from airflow_provider_schemamig.hooks.spark import HookSubmitRunner

                root = self.environment.location
                shared = root.child(self.environment.SYSTEM_FOLDER, "jobs").uri
                return HookSubmitRunner(spark_conn_id, shared, conf)
            if kind == "spark_connect":
                return runner_for(self._connect_url(spark_conn_id), self.settings.spark_conf)
        except SparkAddressUnusable as unusable:
            problem = f"its host and port are no address of Spark Connect: {unusable.reason}"
            remedy = "Correct its host and port; a token is its password, and whether to use TLS the extra use_ssl."
            raise ConnectionUnusable(conn_id=spark_conn_id, problem=problem, remedy=remedy) from None
        except ModuleNotFoundError as missing:
            named = missing.name or ""
            remedy = f"Install it: pip install '{named if named.startswith('apache-') else 'airflow-provider-schemamig[submit]'}'."
            raise ConnectionUnusable(conn_id=spark_conn_id, problem=f"{missing.name} is not installed", remedy=remedy) from missing
        problem = f"its type is {kind!r}, and Spark work needs 'spark' or 'spark_connect'"
        remedy = "Name another Spark connection in the schemamig connection."
        raise ConnectionUnusable(conn_id=spark_conn_id, problem=problem, remedy=remedy)

    def _connect_url(self, conn_id: str) -> str:
        """Return the address of a Spark Connect server. Raises SparkAddressUnusable: Airflow's hook quotes what it cannot take."""
        from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

        host = self._connection(conn_id).host
        if not host:
            raise SparkAddressUnusable(reason="its host is missing or is none")
        try:
            if "?" in host or "#" in host:  # which Airflow's hook would leave out
                raise ValueError
            address, behind, options = SparkConnectHook(conn_id).get_connection_url().partition("/;")
        except ValueError:
            raise SparkAddressUnusable(reason="its host is none, or something stands behind it") from None
        return f"{address}{behind}{options.replace('/', '%2F')}"  # that of a token would begin a path to pyspark

    def _connection(self, conn_id: str) -> Connection:
        try:
            found = self.get_connection(conn_id)
        except AirflowNotFoundException:
            raise ConnectionMissing(conn_id=conn_id) from None
        _extras_of(found)  # as a list they would end Airflow's own hooks in an AttributeError
        return found


def is_place(text: str) -> bool:
    """Return whether a text names the same place in every process: it is a URI or an absolute path."""
    return "://" in text or text.startswith(("/", "file:/"))


def _extras_of(connection: Connection) -> Mapping[str, Any]:
    """Return a connection's extras. Raises ConnectionUnusable for JSON that is no object; none are no extras."""
    found: Any = connection.extra_dejson
    if isinstance(found, dict):
        return found
    remedy = 'Write them as {"NAME": "VALUE"}.'
    raise ConnectionUnusable(conn_id=connection.conn_id, problem="its extras are not a JSON object", remedy=remedy)


def read_settings(connection: Connection) -> Settings:
    """Read the settings in a connection's extras.

    They are ``environment_uri``, ``spark_conn_id``, ``storage_options``, ``storage_secrets`` and ``spark_conf`` (the last three an object
    each, or its JSON text), ``spark_jars`` (a list, or text with commas). Airflow hides an extra by its name only, so credentials stand
    apart, and nowhere else.
    """
    if connection.conn_type != SchemamigHook.conn_type:
        problem = f"its type is {connection.conn_type!r}, not 'schemamig'"
        raise ConnectionUnusable(conn_id=connection.conn_id, problem=problem, remedy="Name a connection of type schemamig.")
    extra = _extras_of(connection)
    uri = extra.get("environment_uri")
    if not uri or not isinstance(uri, str):
        problem = "its environment_uri is no text" if uri else "it names no environment"
        remedy = "Set the field Environment URI (extra environment_uri) of the connection."
        raise ConnectionUnusable(conn_id=connection.conn_id, problem=problem, remedy=remedy)
    if not is_place(uri):
        problem = f"its environment_uri {blank_typed(uri)!r} is relative, and the processes of Airflow share no current directory"
        remedy = "Give the field Environment URI (extra environment_uri) as a URI or as an absolute path."
        raise ConnectionUnusable(conn_id=connection.conn_id, problem=problem, remedy=remedy)
    secrets = _texts(connection.conn_id, "storage_secrets", extra.get("storage_secrets") or {})
    mask_secrets(secrets)
    options = _texts(connection.conn_id, "storage_options", extra.get("storage_options") or {})
    mask_secrets(options)
    open_to_all = sorted(name for name, value in options.items() if not is_harmless(name, value) or holds_userinfo(value))
    if open_to_all:
        problem = f"its storage_options hold credentials ({', '.join(open_to_all)}), and Airflow shows them with the connection"
        remedy = "Move them into the extra storage_secrets, which Airflow hides; and renew them, for they were shown."
        raise ConnectionUnusable(conn_id=connection.conn_id, problem=problem, remedy=remedy)
    if holds_userinfo(uri):
        raise ConnectionUnusable(
            conn_id=connection.conn_id,
            problem="its environment_uri holds a user and a password",
            remedy="Take them out of the URI, and give them in the extra storage_secrets.",
        )
    conf = _spark_conf(connection.conn_id, extra)
    return Settings(uri, extra.get("spark_conn_id") or LOCAL_SPARK, options | secrets, conf)


def _spark_conf(conn_id: str, extra: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings for Spark, with the JARs among them."""
    from airflow_provider_schemamig.core.spark.conf import own_settings

    jars = extra.get("spark_jars") or ()
    if not isinstance(jars, str | list | tuple):
        raise ConnectionUnusable(conn_id=conn_id, problem="its spark_jars are no list", remedy="Give a list, or a text with commas.")
    try:
        return own_settings(
            _texts(conn_id, "spark_conf", extra.get("spark_conf") or {}), [jars] if isinstance(jars, str) else map(str, jars)
        )
    except SparkSettingUnusable as unusable:
        raise ConnectionUnusable(conn_id=conn_id, problem=f"of its spark_conf, {unusable.message}", remedy=unusable.next_action) from None


def mask_secrets(options: Mapping[str, str]) -> None:
    """Blank the credentials among the options wherever they come into a log of this process, in every spelling."""
    for secret in secrets_of(options):
        mask_secret(secret)


def _texts(conn_id: str, extra: str, value: Any) -> dict[str, str]:
    """Return the object in an extra, with text values."""
    try:
        options = json.loads(value) if isinstance(value, str) else value
    except json.JSONDecodeError:
        options = None
    if not isinstance(options, dict) or not all(isinstance(option, str | int | float | bool) for option in options.values()):
        remedy = f'Give {extra} as a JSON object of names and values, such as {{"aws_region": "eu-west-1"}}.'
        raise ConnectionUnusable(conn_id=conn_id, problem=f"its {extra} are not a JSON object of plain values", remedy=remedy)
    return {str(name): str(option).lower() if isinstance(option, bool) else str(option) for name, option in options.items()}
