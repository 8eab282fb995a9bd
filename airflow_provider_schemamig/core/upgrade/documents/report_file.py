"""The report as a file beside its JSON: ``_schemamig/reports/<generation>.html``, written by preflight, and anew by who commits.

It travels in mails and tickets, and is a copy of what the ledger knows: work goes on where it cannot be written.
"""

from __future__ import annotations

from airflow_provider_schemamig.core.html.render import report_html
from airflow_provider_schemamig.core.names import Generation
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.core.upgrade.documents.deployment import deployment_document
from airflow_provider_schemamig.exceptions import SchemamigError


def write_report_file(env: EnvironmentRoot, generation: Generation) -> str | None:
    """Write the report. None, or the note to show to the user if it could not be written."""
    if env.options.throwaway:
        return None
    try:
        env.store().put(f"{env.SYSTEM_FOLDER}/reports/{generation}.html", report_html(deployment_document(env, generation)).encode())
    except (SchemamigError, OSError) as error:
        return f"the report of generation {generation} could not be written as HTML: {env.first_line(error)}"
    return None
