"""Control an upgrade that is under way, or resolve drift: a DAG with a short form for each verb, and `schemamig_control` with all of them.

Who may trigger a DAG may do what it does: `schemamig_pause` without `schemamig_revert`, say; `schemamig_control` is all of them.
"""

from __future__ import annotations

from typing import Any

import pendulum
from airflow.providers.standard.operators.branch import BaseBranchOperator
from airflow.sdk import DAG, Context

from airflow_provider_schemamig.task_groups.verbs import VERBS, form_of, form_of_all, task_of

COMMON: dict[str, Any] = {
    "schedule": None,
    "start_date": pendulum.datetime(2025, 1, 1),
    "tags": ["schemamig"],
    "default_args": {"only_params": True},
}


class ChooseVerbOperator(BaseBranchOperator):
    """Go on to the task of the form's action; BranchPythonOperator would do, and its module takes 40 ms of each parse to import."""

    def choose_branch(self, context: Context) -> str:
        return str(context["params"]["action"])


for verb, found in VERBS.items():
    with DAG(dag_id=f"schemamig_{verb}", description=found.does, doc_md=found.does, params=form_of(verb), **COMMON) as short:
        task_of(verb)
    globals()[short.dag_id] = short

with DAG(
    dag_id="schemamig_control",
    description="Choose one of the verbs that have a DAG of their own; only the fields whose description names it are used",
    doc_md=__doc__,
    params=form_of_all(),
    **COMMON,
) as dag:
    choose = ChooseVerbOperator(task_id="action", doc_md="To the task of the action.")
    choose >> [task_of(verb) for verb in VERBS]
