"""``schemamig ledger restore``."""

from __future__ import annotations

from airflow_provider_schemamig.cli.commands.ledger.copies import FolderArgument, kept
from airflow_provider_schemamig.cli.options import EnvOption, JsonOption, open_environment
from airflow_provider_schemamig.cli.output import Answer, answered

# NEED _uri


@answered
def restore(env: EnvOption, folder: FolderArgument, as_json: JsonOption = False) -> Answer:
    """Restore the backup in FOLDER to an environment that has no ledger. Nothing is ever overwritten."""
    from airflow_provider_schemamig.core import commands

    done = commands.restore_ledger(open_environment(env), folder)
    return kept(folder, done)
