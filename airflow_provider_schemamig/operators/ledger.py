"""Care for an environment's ledger (docs/ledger.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.operators.arguments import as_place
from airflow_provider_schemamig.operators.base import DocumentOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class BackupLedgerOperator(DocumentOperator):
    """Copy the ledger and its plans to a folder, byte for byte. Never over another backup.

    :param folder: (templated) the backup's folder, a URI or an absolute path, without a backup in it: ``s3://backup/lake/{{ ts_nodash }}``.
    """

    template_fields: Sequence[str] = (*DocumentOperator.template_fields, "folder")

    def __init__(self, *, folder: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.folder = folder

    def run_verb(self, context: Context) -> dict[str, Any]:
        from airflow_provider_schemamig.core import commands
        from airflow_provider_schemamig.core.environment import Environment

        folder = as_place("folder", self.folder, "a URI or an absolute path, without a backup in it")
        done = commands.backup_ledger(self.hook.environment, folder)
        return {"uri": Environment.open(folder).location.uri, **asdict(done)}
