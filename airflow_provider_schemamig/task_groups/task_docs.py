"""What Airflow's page says of each task of an upgrade: what it does, what it touches, and what to do where it is red."""

from __future__ import annotations

from typing import Any

from airflow.sdk import TaskGroup

_CLEAR = "Clear it when the reason is fixed; what is done already is found again."
_NO_TABLE = "Touches no live table."

#: By task id.
TASK_DOCS = {
    "fingerprint": f"""Is there anything to do? Compares the release folder with the environment, without Spark.

{_NO_TABLE} *Skipped*: the environment is at the release. *Deferred*: another run has an upgrade of it open.

**If it fails**: a table was changed by somebody else (drift), or the release is refused. Each reason is a line of the log.""",
    "preflight": f"""Plans the upgrade, asks the rows what only they know, claims a generation and makes new tables.

{_NO_TABLE} The plan in words is in the log; the gate shows it.

**If it fails**: everything that stands against the release is in the log, each reason with what to do. {_CLEAR}""",
    "fill_chunks": "Splits the collections that have to be filled or copied into tasks. With none, `fill` and `tail` are skipped.",
    "fill": f"""Copies, or fills, new tables on Spark; readers and writers of the old ones notice nothing.

{_NO_TABLE} The log has rows a second and the time left. To make it wait: `schemamig_pause`; to slow it down: `schemamig_throttle`.

**If it fails**: the log names the rows or the statement. {_CLEAR}""",
    "tail": f"""Brings what is committed to the old tables into their copies while the gate waits, so that the cut-over has little to do.

{_NO_TABLE} Ends by itself when the generation is promoted or given up; nothing waits for it.""",
    "gate": "Follows the gate that the run asked for: a person in Airflow, the ledger, nobody, or (`auto`) by the plan's risk.",
    "approval": f"""Waits for a person: tab *Required Actions*. It shows the plan: what changes, whom it breaks, the cost, the way back.

{_NO_TABLE} *Reject* skips all that follows; the environment stays as it is. Unanswered, it fails: clear it together with `tail`.""",
    "ledger_approval": f"""Waits until the plan is approved in the ledger; the log has the command with generation and digest.

{_NO_TABLE} Unanswered, it fails: clear it together with `tail`.""",
    "promote": """Takes the lead for the generation, if the plan is still the one that was checked.

Writes to the ledger alone. **From here on** the way back is `schemamig_rollback`.

**If it fails** with `plan_changed`, something moved: clear `preflight` and all after it. With `gate_outdated`, `preflight` alone
ran again: clear the gate and all after it. With `fenced`, another run leads.""",
    "expand": f"""Finishes or takes back what an earlier leader left, then makes every change that readers and writers do not notice.

One commit a table; writers in flight abort once and succeed when they try again.

**If it fails**: {_CLEAR}""",
    "to_change": "Splits the collections with changes on their rows into tasks. With none of them `change` is skipped.",
    "change": f"""Makes the changes that need a look at rows, or new values in them, while others read and write.

The log has each element's way to PUBLIC. To make it wait: `schemamig_pause`; to slow it down: `schemamig_throttle`.

**If it fails**: rows break a rule, and the table is as it was before. Fix them. {_CLEAR}""",
    "cutover_and_commit": f"""Follows what is rewritten, locks writers out for seconds, renames, and makes the release true in one append.

All or nothing: before that append everybody sees the old release, after it the new one. The log says for how long writers waited.

**If it fails**: nobody is locked out any more. {_CLEAR}""",
    "cleanup": "Deletes what earlier generations left and nothing refers to. **If it fails**, nothing is lost: the next upgrade does it.",
    "contract": """Takes away what only the release before needed, if the hold is over; *skipped* until then.

**After it there is no way back** to the release before.""",
}


def document(group: TaskGroup) -> None:
    """Give each task of an upgrade its text."""
    tasks: Any = group.iter_tasks()
    for task in tasks:
        text = TASK_DOCS[task.task_id.rpartition(".")[2]]
        if hasattr(task, "partial_kwargs"):  # a mapped one
            task.partial_kwargs["doc_md"] = text
        else:
            task.doc_md = text
