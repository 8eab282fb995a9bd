"""What a person may say to an environment by a form: each verb once, for its own short DAG and for the one that has all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow.sdk import BaseOperator, Param

from airflow_provider_schemamig.operators.control import (
    ApproveOperator,
    CancelOperator,
    ForceOperator,
    PauseOperator,
    PinOperator,
    PostponeOperator,
    ResumeOperator,
    ThrottleOperator,
    UnpinOperator,
)
from airflow_provider_schemamig.operators.drift import RevertOperator, UnmanageOperator
from airflow_provider_schemamig.operators.leader import ContractOperator
from airflow_provider_schemamig.task_groups.params import environment_param, optional_number, optional_text


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a form. ``empty``: what it means to leave it empty, where a verb lets it be."""

    title: str
    description: str
    empty: str = ""
    type: str = "string"

    def param(self, is_needed: bool, verbs: str = "", section: str | None = None) -> Param:
        """Make the field. One that is needed has no default: the form does not let it be empty, and neither does the server."""
        text = " ".join(filter(None, (self.description, "" if is_needed else self.empty, verbs)))
        if self.type == "boolean":
            return Param(False, type="boolean", title=self.title, description=text, section=section)
        if not is_needed:
            optional = optional_text if self.type == "string" else optional_number
            return optional(self.title, text, section)
        least: dict[str, Any] = {"minLength": 1} if self.type == "string" else {"minimum": 1}
        return Param(type=self.type, title=self.title, description=text, section=section, **least)


@dataclass(frozen=True, slots=True)
class _Verb:
    """A task with its form: the fields that are needed, and those that may stay empty.

    ``names``: what the operator calls a field, where it is not the field's name. ``given``: arguments that are no matter of the form.
    """

    operator: type[BaseOperator]
    does: str
    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)


FIELDS = {
    "collection": _Field("Collection", "Name of the table.", "Empty: all of them."),
    "reason": _Field("Reason", "Why; shown wherever something waits."),
    "generation": _Field("Generation", "Number of the deployment.", "Empty: the pin is of none.", type="integer"),
    "plan": _Field("Plan", "Digest of the plan that you read, or its first 12 digits."),
    "rows_per_second": _Field("Rows a second", "On average.", "Empty: no such limit.", type="integer"),
    "max_files": _Field("Files a batch", "So many files of the source in one batch.", "Empty: no such limit.", type="integer"),
    "commits_per_minute": _Field("Commits a minute", "Each batch is one.", "Empty: no such limit.", type="integer"),
    "window": _Field("Hours UTC", "Batches begin only in these hours, such as 22-6.", "Empty: at any hour."),
    "hours": _Field("Hours of history", "The table's history is kept for at least so long.", type="integer"),
    "allow_lossy": _Field("Allow loss", "Even if values are lost.", type="boolean"),
    "ignore_nodes": _Field("Ignore nodes", "Even if live nodes need what it keeps.", type="boolean"),
}

#: By task id, and ``schemamig_<verb>`` is the DAG.
VERBS = {
    "pause": _Verb(
        PauseOperator,
        "Let no upgrade go further: no batch of rows, no promotion, no seal, no commit. What is in flight ends.",
        optional=("collection", "reason"),
    ),
    "postpone": _Verb(
        PostponeOperator,
        "Let work on rows go on, but the last step of online changes wait until it is resumed.",
        optional=("collection", "reason"),
    ),
    "resume": _Verb(ResumeOperator, "Take a pause, a postponement or a force back; limits stay.", optional=("collection",)),
    "throttle": _Verb(
        ThrottleOperator,
        "Set the limits of work on rows to exactly these; those that are left empty are taken back.",
        optional=("collection", "rows_per_second", "max_files", "commits_per_minute", "window"),
    ),
    "force": _Verb(
        ForceOperator,
        "Let busy writers wait for the last step of an online change after one lost race, and for a fill that they outrun.",
        needed=("collection",),
    ),
    "cancel": _Verb(
        CancelOperator,
        "Give a generation up: what it built is deleted. Promoted already: it is rolled back. Committed: refused.",
        needed=("generation",),
    ),
    "approve": _Verb(
        ApproveOperator,
        "Record that you read the plan of a generation and want it: what the gate `ledger` waits for.",
        needed=("generation", "plan"),
    ),
    "pin": _Verb(
        PinOperator,
        "Keep the history of a table longer, for a copy that takes longer than it is kept. Commits to the table.",
        needed=("collection", "hours"),
        optional=("generation",),
        names={"generation": "holder"},
    ),
    "unpin": _Verb(
        UnpinOperator,
        "Take a pin back. The own settings of the table come back with the last one.",
        needed=("collection",),
        optional=("generation",),
        names={"generation": "holder"},
    ),
    "revert": _Verb(
        RevertOperator,
        "Undo what somebody did to a table that drifted, in one metadata commit.",
        needed=("collection",),
        optional=("allow_lossy",),
    ),
    "unmanage": _Verb(UnmanageOperator, "Give a table back: the environment forgets it, it stays as it is.", needed=("collection",)),
    "end_hold": _Verb(
        ContractOperator,
        "End a hold before its time: what it keeps is deleted, the way back to the release before is gone.",
        needed=("generation",),
        optional=("ignore_nodes",),
        given={"at_once": True},
    ),
}


def form_of(verb: str) -> dict[str, Param]:
    """Make the short form of a verb: the environment and its own fields, those that are needed first."""
    found = VERBS[verb]
    fields = {name: FIELDS[name].param(name in found.needed) for name in (*found.needed, *found.optional)}
    return {"environment": environment_param(), **fields}


def form_of_all() -> dict[str, Param]:
    """Make the long form: any of the verbs, so each field may stay empty, and says for which of them it is."""
    action = Param(next(iter(VERBS)), type="string", enum=list(VERBS), title="Action", description="What is to be done.")
    return {"environment": environment_param(), "action": action, **{name: _field_of_all(name) for name in FIELDS}}


def task_of(verb: str) -> BaseOperator:
    """Make the task of a verb. It takes its arguments from the form: an empty text where that says nothing."""
    found = VERBS[verb]
    fields = ("environment", *found.needed, *found.optional)
    arguments: dict[str, Any] = {found.names.get(name, name): _template(name) for name in fields}
    return found.operator(task_id=verb, doc_md=found.does, **arguments, **found.given)


def _template(name: str) -> str:
    is_flag = name in FIELDS and FIELDS[name].type == "boolean"
    return f"{{{{ params.{name} }}}}" if is_flag else f"{{{{ params.{name} or '' }}}}"


def _field_of_all(name: str) -> Param:
    need = [verb for verb, found in VERBS.items() if name in found.needed]
    take = [verb for verb, found in VERBS.items() if name in found.optional]
    whose = [f"{word} {', '.join(verbs)}" for word, verbs in (("for", take), ("needed by", need)) if verbs]
    sentence = "; ".join(whose)
    only = (need + take)[0] if len(need + take) == 1 else None
    return FIELDS[name].param(False, f"{sentence[0].upper()}{sentence[1:]}.", only)
