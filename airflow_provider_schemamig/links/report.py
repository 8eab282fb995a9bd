"""The link from a preflight task to its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink
from airflow.sdk.execution_time.xcom import XCom

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class ReportLink(BaseOperatorLink):
    """Opens the report of preflight: the plan, its cost, and what was found in the data."""

    name = "Preflight report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the report's URI, or an empty text while there is none (Airflow then shows the button greyed out)."""
        uri = XCom.get_value(key="report_uri", ti_key=ti_key)
        return str(uri) if uri else ""
