"""The options of Airflow's config section ``[schemamig]``, in one place: provider info, operators and DAGs all read them here.

Imports nothing of Airflow at import time: provider discovery runs before Airflow's own configuration is ready.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SECTION = "schemamig"


@dataclass(frozen=True, slots=True)
class Option:
    """One option of the section; ``default`` has the type that Airflow's documentation names (string, integer, float)."""

    name: str
    type: str
    default: str
    example: str
    description: str

    def to_provider_info(self) -> dict[str, Any]:
        """Return the option as Airflow's provider schema wants it."""
        return {
            "description": self.description,
            "version_added": "0.1.0",
            "type": self.type,
            "example": self.example,
            "default": self.default,
        }


DEFAULT_ENVIRONMENT = Option(
    name="default_environment",
    type="string",
    default="schemamig_default",
    example="s3://lake/prod",
    description="Connection id (of type schemamig) or URI of the environment that the shipped DAGs propose.",
)
DEFAULT_ORIGIN = Option(
    name="default_origin",
    type="string",
    default="schemamig_origin",
    example="s3://lake-us/prod",
    description="Connection id (of type schemamig) or URI of the environment that schemamig_replicate brings rows from.",
)
DEFAULT_RELEASE = Option(
    name="default_release",
    type="string",
    default="release",
    example="/opt/airflow/lake/flights_lake",
    description="Release folder that the shipped DAGs propose. A relative path is looked for in the folder of the DAG file.",
)
FILL_CHUNK_SIZE = Option(
    name="fill_chunk_size",
    type="integer",
    default="10",
    example="50",
    description="How many collections one mapped fill or change task takes. Each task starts its own Spark job.",
)
POLL_INTERVAL = Option(
    name="poll_interval",
    type="float",
    default="30",
    example="5",
    description="Seconds between two looks of a waiting sensor or a replicated stream at ledgers and live tables.",
)
RECOMPUTE_INTERVAL = Option(
    name="recompute_interval",
    type="float",
    default="300",
    example="60",
    description="Seconds until a target's schema is worked out again while a replicated stream is paused.",
)
REPLICATE_MINUTES = Option(
    name="replicate_minutes",
    type="integer",
    default="10",
    example="60",
    description="Minutes for which a run of schemamig_replicate follows its collections before the next one takes over.",
)


#: Ten years.
_LONGEST_SECONDS = 10 * 365 * 86_400.0


def _schedule(dag: str, example: str) -> Option:
    return Option(
        name=f"{dag}_schedule",
        type="string",
        default="",
        example=example,
        description=f"When schemamig_{dag} runs, as cron or as Airflow's preset. Empty: only when somebody triggers it.",
    )


#: By the shipped DAG's name without its prefix.
SCHEDULES = {
    dag: _schedule(dag, example)
    for dag, example in {
        "upgrade": "@daily",
        "maintenance": "@hourly",
        "verify": "@daily",
        "watch_keys": "@hourly",
        "replicate": "@continuous",
    }.items()
}
OPTIONS = (
    DEFAULT_ENVIRONMENT,
    DEFAULT_ORIGIN,
    DEFAULT_RELEASE,
    FILL_CHUNK_SIZE,
    POLL_INTERVAL,
    RECOMPUTE_INTERVAL,
    REPLICATE_MINUTES,
    *SCHEDULES.values(),
)


def default_environment() -> str:
    return _read(DEFAULT_ENVIRONMENT)


def default_origin() -> str:
    return _read(DEFAULT_ORIGIN)


def default_release() -> str:
    return _read(DEFAULT_RELEASE)


def fill_chunk_size() -> int:
    """Return the number of collections in a mapped task; never below 1."""
    return max(1, int(_read(FILL_CHUNK_SIZE)))


def most_mapped() -> int:
    """Return over how many items Airflow maps a task at most: it fails a run that asks for more."""
    from airflow.sdk import conf

    return int(conf.getint("core", "max_map_length", fallback=1024))


def poll_interval() -> float:
    """Return seconds; of more than ten years, ten."""
    return min(float(_read(POLL_INTERVAL)), _LONGEST_SECONDS)


def recompute_interval() -> float:
    """Return seconds; of more than ten years, ten."""
    return min(float(_read(RECOMPUTE_INTERVAL)), _LONGEST_SECONDS)


def replicate_minutes() -> int:
    """Return minutes; never below 0."""
    return max(0, int(_read(REPLICATE_MINUTES)))


def schedule(dag: str) -> str | None:
    """Return when the shipped DAG runs by itself; None: never."""
    return _read(SCHEDULES[dag]).strip() or None


def _read(option: Option) -> str:
    from airflow.sdk import conf

    # The fallback serves processes that have not discovered providers, where the section's defaults are unknown.
    return str(conf.get(SECTION, option.name, fallback=option.default))
