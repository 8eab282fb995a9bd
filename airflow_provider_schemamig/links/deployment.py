"""The button *Deployment*: from every task to what its run does to the environment (the tab *Schema upgrade* of the run)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow.sdk import BaseOperatorLink

from airflow_provider_schemamig.links.plan import run_page

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator


class DeploymentLink(BaseOperatorLink):
    """Leads to the tab of the task's run."""

    name = "Deployment"

    def get_link(self, operator: BaseOperator, *, ti_key: Any) -> str:
        """Return the path of the tab, below the path of ``[api] base_url``."""
        return urlsplit(f"{run_page(ti_key)}/plugin/schemamig_run").path
