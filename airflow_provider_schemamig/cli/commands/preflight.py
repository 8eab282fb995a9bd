"""``schemamig preflight``."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from airflow_provider_schemamig.cli.options import (
    DEFAULT_SEAL_SECONDS,
    DEFAULT_SPARK,
    ClaimHoldOption,
    ClaimOption,
    CreateOption,
    EndHoldOption,
    EnvOption,
    IgnoreNodesOption,
    JsonOption,
    ReleaseOption,
    SealSecondsOption,
    SparkOption,
    local_path,
    open_environment,
    parse_hold,
    spark_at,
)
from airflow_provider_schemamig.cli.output import Answer, answered
from airflow_provider_schemamig.cli.progress import watched

if TYPE_CHECKING:
    from rich.console import Console


@answered
def preflight(
    env: EnvOption,
    release: ReleaseOption,
    hold: ClaimHoldOption = None,
    end_hold: EndHoldOption = False,
    ignore_nodes: IgnoreNodesOption = False,
    claim_id: ClaimOption = None,
    create: CreateOption = False,
    seal_seconds: SealSecondsOption = DEFAULT_SEAL_SECONDS,
    spark: SparkOption = DEFAULT_SPARK,
    as_json: JsonOption = False,
) -> Answer:
    """Claim a generation, check the rows, build the tables of replacements, copy the rows of rewrites. No live table is touched."""
    from airflow_provider_schemamig.core import commands

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.plan import show_preflight

        show_preflight(to, found)

    root, folder, kept = open_environment(env), local_path(release), None if hold is None else parse_hold(hold)
    with watched() as listen:
        run = functools.partial(commands.preflight, root, folder, hold=kept, end_hold=end_hold, ignore_nodes=ignore_nodes)
        found = run(claim_id=claim_id, create=create, seal_seconds=seal_seconds, jobs=spark_at(spark, listen), listen=listen)
    if found.generation is not None:
        commands.write_report_file(root, found.generation)
    return Answer(found.to_json(), show)
