"""``schemamig ledger backup``."""

from __future__ import annotations

from airflow_provider_schemamig.cli.commands.ledger.copies import FolderArgument, kept
from airflow_provider_schemamig.cli.options import EnvOption, JsonOption, open_environment
from airflow_provider_schemamig.cli.output import Answer, answered

# NEED _uri


@answered
def backup(env: EnvOption, folder: FolderArgument, as_json: JsonOption = False) -> Answer:
    """Copy the ledger and its plans to FOLDER, byte for byte."""
    from airflow_provider_schemamig.core import commands

    done = commands.backup_ledger(open_environment(env), folder)
    return kept(folder, done)
