"""``schemamig unpin``."""

from __future__ import annotations

from airflow_provider_schemamig.cli.options import (
    CollectionOption,
    EnvOption,
    HolderOption,
    JsonOption,
    open_environment,
)
from airflow_provider_schemamig.cli.output import Answer, answered
from airflow_provider_schemamig.core.user import user_name


@answered
def unpin(env: EnvOption, collection: CollectionOption, holder: HolderOption = None, as_json: JsonOption = False) -> Answer:
    """Remove a pin. Removing the last one restores the table's own settings."""
    from airflow_provider_schemamig.core import commands

    whose = holder or user_name()
    found = commands.unpin(open_environment(env), collection, whose)
    text = f"{whose} pins {collection} no longer." if found else f"{whose} has no pin on {collection}."
    return Answer({"collection": collection, "holder": whose, "unpinned": found}, lambda to: to.print(text))
