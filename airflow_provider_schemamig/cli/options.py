"""The options that several commands share, and how their text becomes values.

Options belong to the leaf command and may stand in any order after it.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_provider_schemamig.cli.spark_options import SparkAddress
from airflow_provider_schemamig.credentials import blank_typed

if TYPE_CHECKING:
    from airflow_provider_schemamig.core.environment import Environment
    from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter
    from airflow_provider_schemamig.core.progress import Listener
    from airflow_provider_schemamig.core.spark.runners import JobRunner

EnvOption = Annotated[
    str,
    typer.Option("--env", envvar="SCHEMAMIG_ENV", metavar="URI", help="The environment's root: a URI or a plain path.", show_default=False),
]
ReleaseOption = Annotated[str, typer.Option("--release", metavar="DIR", help="The release folder.", show_default=False)]
GenerationOption = Annotated[
    int, typer.Option("--generation", min=1, metavar="N", help="The deployment that preflight claimed.", show_default=False)
]
PlanOption = Annotated[
    str, typer.Option("--plan", metavar="DIGEST", help="The digest of the plan you read, or its first 12 digits.", show_default=False)
]
_KEEPS = "How long a rollback stays possible: 0, 30m, 24h, 7d or seconds."
HoldOption = Annotated[str, typer.Option("--hold", metavar="TIME", help=_KEEPS)]
ClaimHoldOption = Annotated[
    str | None,
    typer.Option("--hold", metavar="TIME", help=f"{_KEEPS[:-1]} (default: as claimed before, else 24h).", show_default=False),
]
EndHoldOption = Annotated[bool, typer.Option("--end-hold", help="End every open hold before its time; the plan lists what is deleted.")]
IgnoreNodesOption = Annotated[bool, typer.Option("--ignore-nodes", help="End a hold also if live nodes still need what it keeps.")]
CreateOption = Annotated[bool, typer.Option("--create", help="Make the environment if there is none; without this option that is refused.")]
ClaimOption = Annotated[
    str | None, typer.Option("--claim-id", metavar="ID", help="Resume the deployment claimed under this id.", show_default=False)
]
RollbackClaimOption = Annotated[
    str | None,
    typer.Option(
        "--claim-id", metavar="ID", help="Id of this rollback: repeated with it, it goes back one release only.", show_default=False
    ),
]
CollectionOption = Annotated[str, typer.Option("--collection", metavar="NAME", help="The collection.", show_default=False)]
ScopeOption = Annotated[
    str | None, typer.Option("--collection", metavar="NAME", help="Only this collection; all if not given.", show_default=False)
]
ReasonOption = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why; shown with your name wherever something waits.", show_default=False)
]
HolderOption = Annotated[
    str | None,
    typer.Option(
        "--holder", metavar="ID", help="Whose pin: a generation, or your own name for it (default: your user name).", show_default=False
    ),
]
#: Spark in this process, by Connect, and the masters that spark-submit knows.
_SPARK = re.compile(r"local(\[[^]]+\])?|sc://.+|spark://.+|k8s://.+|yarn")


def checked_spark(url: str) -> str:
    """Return the address of a Spark. Anything else is a usage error, which spark-submit would make of it after preflight's claim."""
    if _SPARK.fullmatch(url) is None:
        raise typer.BadParameter(
            f"{blank_typed(url)!r} is no Spark: write local[*], spark://HOST:PORT, yarn, k8s://HOST:PORT or sc://HOST:PORT.",
            param_hint="'--spark'",
        )
    if url.startswith("sc://"):
        _check_connect(url)
    return url


def _check_connect(url: str) -> None:
    from airflow_provider_schemamig.core.spark.connect.address import server_of
    from airflow_provider_schemamig.core.spark.errors import SparkAddressUnusable

    try:
        server_of(url)
    except SparkAddressUnusable as unusable:
        raise typer.BadParameter(f"{unusable.message} {unusable.next_action}", param_hint="'--spark'") from None


def spark_option(check: Callable[[str], str]) -> Any:
    """Return the option ``--spark``, judged also where no job comes to run."""
    told = "Where Spark jobs run: local[*], spark://..., yarn, k8s://... or sc://..."
    return typer.Option("--spark", envvar="SCHEMAMIG_SPARK", metavar="URL", help=told, callback=check)


SparkOption = Annotated[str, spark_option(checked_spark)]
SealSecondsOption = Annotated[
    int, typer.Option("--seal-seconds", min=1, max=86_400, metavar="N", help="For how many seconds the cut-over may lock writers out.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]

DEFAULT_SPARK = "local[*]"
DEFAULT_SEAL_SECONDS = 60
#: {"aws_region": "...", "schemamig.conditional_log_store": "true"}: object_store's names, and ours.
STORAGE_OPTIONS = "SCHEMAMIG_STORAGE_OPTIONS"

#: A window of hours as ``throttle`` takes it and documents show it: ``22-6``.
_WINDOW = re.compile(r"([0-9]{1,2})-([0-9]{1,2})")
_HOLD = re.compile(r"([0-9]{1,9})([mhd]?)")
_SECONDS = {"": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST_HOLD = timedelta(days=3650)


def parse_hold(text: str) -> timedelta:
    """Parse ``0``, ``30m``, ``24h``, ``7d`` or a plain number of seconds. Anything else is a usage error."""
    match = _HOLD.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a time: write 0, 30m, 24h, 7d or a number of seconds.", param_hint="'--hold'")
    seconds = int(match[1]) * _SECONDS[match[2]]
    if seconds > LONGEST_HOLD.total_seconds():
        raise typer.BadParameter(f"{text!r} is longer than ten years.", param_hint="'--hold'")
    return timedelta(seconds=seconds)


def parse_window(text: str | None) -> tuple[int, int] | None:
    """Parse hours: ``22-6`` is from 22:00 to 06:00 UTC. The core decides which hours make a window; anything else is a usage error."""
    if text is None:
        return None
    match = _WINDOW.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a window of hours: write 22-6 for 22:00 to 06:00 UTC.", param_hint="'--window'")
    return int(match[1]), int(match[2])


def local_path(text: str) -> Path:
    """Return the path that is given plainly or as ``file://``. A URI of another scheme is a usage error: a release folder is read from
    disk."""
    from airflow_provider_schemamig.core.storage import Location

    if not text.strip():  # an unset variable of a script, which would mean the working directory
        raise typer.BadParameter("a folder has to be named; `.` is the working directory.")
    if "://" not in text:
        return Path(text)
    path = Location.parse(text).local_path
    if path is None:
        raise typer.BadParameter(f"{text!r} is not on this machine: check the folder out from git and give its path.")
    return path


def open_environment(uri: str) -> Environment:
    from airflow_provider_schemamig.core.environment import Environment  # at module level every --help would pay for it

    return Environment.open(uri, _storage_options())


def open_ledger(uri: str) -> LedgerReader:
    from airflow_provider_schemamig.core.ledger.store import LedgerReader

    return LedgerReader(open_environment(uri))


def open_ledger_to_write(uri: str) -> LedgerWriter:
    from airflow_provider_schemamig.core.ledger.store import LedgerWriter

    return LedgerWriter(open_environment(uri))


def _storage_options() -> dict[str, str]:
    """Read credentials and declarations for object stores from an environment variable: `ps` would show an option."""
    text = os.environ.get(STORAGE_OPTIONS, "{}")
    try:
        found = json.loads(text)
    except ValueError:
        found = None  # the text may hold a secret: it goes into no message
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise typer.BadParameter("it is not a JSON object of strings.", param_hint=STORAGE_OPTIONS)
    return found


def spark_at(url: str, listen: Listener) -> Callable[[], JobRunner]:
    """Return a factory of the runner: the first stage that needs Spark makes the runner, and with it the JVM; ``listen`` hears of jobs."""
    checked_spark(url)
    conf = url.conf if isinstance(url, SparkAddress) else {}

    def make() -> JobRunner:
        from airflow_provider_schemamig.core.spark import runner_for
        from airflow_provider_schemamig.core.spark.watched import WatchedRunner

        return WatchedRunner(runner_for(url, conf), listen)

    return functools.cache(make)


def table_named(text: str) -> tuple[str, str]:
    """Parse ``NAME=URI``."""
    name, separator, uri = text.partition("=")
    if not (name and separator and uri):
        raise typer.BadParameter(f"{text!r} is not NAME=URI.", param_hint="'--table'")
    return name, uri
