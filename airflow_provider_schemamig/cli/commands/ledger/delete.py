"""``schemamig ledger delete``."""

from __future__ import annotations

from airflow_provider_schemamig.cli.commands.ledger.row_edits import ExpectOption, ForceOption, KeyOption, LedgerCollectionOption, edited
from airflow_provider_schemamig.cli.options import EnvOption, JsonOption
from airflow_provider_schemamig.cli.output import Answer, answered


@answered
def delete(
    env: EnvOption,
    collection: LedgerCollectionOption,
    key: KeyOption,
    expect: ExpectOption = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> Answer:
    """Delete one row by hand, if it is there. Run `backup` first."""
    return edited(env, collection, key, None, expect, force)
