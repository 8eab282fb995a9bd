"""Following the sources of copies while the gate waits: rounds of the tail, each a short one because the last was not long ago."""

from __future__ import annotations

import time
from collections.abc import Sequence

from airflow_provider_schemamig.core.ledger.rows import Deployment
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.spark.errors import ConcurrentWrite
from airflow_provider_schemamig.core.transfer.errors import StepAlreadyMade
from airflow_provider_schemamig.core.transfer.throttle import Pace
from airflow_provider_schemamig.core.upgrade.context.context import StageResult, deployment_of
from airflow_provider_schemamig.core.upgrade.plan.stages import Copy
from airflow_provider_schemamig.core.upgrade.prepare.build import replacement_key, unfilled
from airflow_provider_schemamig.core.upgrade.prepare.copy import LOST, CopyContext, begin_anew, follow, was_begun_anew
from airflow_provider_schemamig.core.upgrade.prepare.fill import FillContext, build_all
from airflow_provider_schemamig.exceptions import SchemamigError

#: Between two rounds. A round of nothing costs a look at the log; one that is small costs Spark a few seconds.
ROUND_SECONDS = 10.0


def follow_while_claimed(filling: FillContext, collections: Sequence[str] | None, *, once: bool) -> tuple[StageResult, ...]:
    """Follow the rewritten ``collections`` (None: all), round after round, until the generation is promoted, rejected or given up; or one
    round."""
    stages = [stage for stage in filling.plan.of_kind(Copy) if collections is None or stage.collection in collections]
    results: list[StageResult] = []
    pace = Pace(filling.ledger.state, filling.listen, waits=filling.env.waits)
    while stages and _goes_on(filling.ledger, filling.deployment):
        for stage in stages:
            if not pace.may_begin("tail", stage.collection):
                continue  # not waited for: the generation may be promoted meanwhile
            found = _round(filling, filling.copying(stage))
            results += [found] if found is not None else []
        if once:
            break
        time.sleep(ROUND_SECONDS)
    return tuple(results)


def _goes_on(ledger: LedgerReader, deployment: Deployment) -> bool:
    return deployment_of(ledger.state(), deployment.generation).may_be_promoted


def _round(filling: FillContext, copying: CopyContext) -> StageResult | None:
    row = copying.ledger.state().replacements.get(replacement_key(copying.stage.collection, copying.deployment))
    if row is None:
        return None  # given up just now
    try:
        if row.filled_rows is not None:
            return follow(copying)
    except (StepAlreadyMade, ConcurrentWrite):
        return None  # the next round goes on from what the other did
    except SchemamigError as error:
        if not _goes_on(copying.ledger, copying.deployment) or was_begun_anew(copying.ledger.state(), row):
            return None
        if not isinstance(error, LOST):
            raise
        begin_anew(copying, row, error.message)
    todo = [name for name in unfilled(copying.ledger.state(), copying.deployment, filling.plan) if name == copying.stage.collection]
    build_all(filling, todo)
    return None
