"""``schemamig pin``."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from airflow_provider_schemamig.cli.options import (
    LONGEST_HOLD,
    CollectionOption,
    EnvOption,
    HolderOption,
    JsonOption,
    open_environment,
)
from airflow_provider_schemamig.cli.output import Answer, answered
from airflow_provider_schemamig.core.user import user_name

_MOST_HOURS = LONGEST_HOLD // timedelta(hours=1)


@answered
def pin(
    env: EnvOption,
    collection: CollectionOption,
    hours: Annotated[
        int, typer.Option("--hours", min=1, max=_MOST_HOURS, metavar="N", help="How much history a copy needs.", show_default=False)
    ],
    holder: HolderOption = None,
    as_json: JsonOption = False,
) -> Answer:
    """Keep a live table's history longer than its retention, for a long copy. Commits to the table."""
    from airflow_provider_schemamig.core import commands
    from airflow_provider_schemamig.core.upgrade.status import pin_json

    pinned = commands.pin(open_environment(env), collection, holder or user_name(), hours)
    unit = "hour" if pinned.hours == 1 else "hours"
    text = f"{collection} keeps its history for at least {pinned.hours} {unit}, until {pinned.holder} unpins it."
    return Answer(pin_json(pinned, collection), lambda to: to.print(text))
