"""What happens to an environment, told to people: through any notifier of Airflow (mail, Slack, ...), which sends it.

A task says what happened (``Notice``); ``SchemamigNotifier`` chooses, and lets Airflow's notifiers render and send it.
"""

from __future__ import annotations

import copy
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier

from airflow_provider_schemamig.credentials import blank, blank_typed
from airflow_provider_schemamig.exceptions import Refusal
from airflow_provider_schemamig.visible import visible

if TYPE_CHECKING:
    from airflow.sdk import Context

GATE_WAITS, PROMOTED, COMMITTED, ROLLED_BACK = "gate_waits", "promoted", "committed", "rolled_back"
DRIFT, PAUSED, HOLD_ENDS_SOON, STREAM_STOPPED = "drift", "paused", "hold_ends_soon", "stream_stopped"
#: What can be told.
EVENTS = (GATE_WAITS, PROMOTED, COMMITTED, ROLLED_BACK, DRIFT, PAUSED, HOLD_ENDS_SOON, STREAM_STOPPED)
#: Under this name a notice stands in the context that the sending notifiers render their templates with.
KEY = "schemamig"
#: Services refuse longer texts (a section of Slack: 3,000 characters); the report holds all.
LONGEST = 2_800


class UnknownEvent(Refusal):
    """A notifier that was asked for an unknown event."""

    code = "unknown_event"
    message = "{event!r} is nothing that a notifier tells."
    next_action = "Use some of: {known}."
    event: str
    known: str


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing that happened. ``facts``: from, to, generation and the like, by name."""

    event: str
    environment: str
    subject: str
    text: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_context(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """Return what templates see: without credentials, on one line (``subject``), cut (``text``), escaped (``html``)."""
        ti = context.get("ti")
        subject = visible(blank(self.subject))
        text = visible(blank(self.text or self.subject), lines=True)
        if len(text) > LONGEST:
            text = f"{text[:LONGEST]}\n… (cut; the task's log has all)"
        found = {name: visible(blank(value)) if isinstance(value, str) else value for name, value in self.facts.items()}
        return {
            **found,
            "event": self.event,
            "environment": visible(blank_typed(self.environment)),
            "subject": subject,
            "text": text,
            "html": f"<pre>{html.escape(text)}</pre>",
            **{name: getattr(ti, name, "") for name in ("dag_id", "run_id", "task_id")},
        }


class SchemamigNotifier(BaseNotifier):
    """Tell what happens to an environment through other notifiers; give it to a task, or to ``upgrade_task_group``, as ``notifiers``.

    A notifier that cannot send fails no task: an upgrade does not depend on a mail. The task's log has it.

    :param via: Airflow's notifiers that send. Their templates find the notice under ``schemamig``: ``{{ schemamig.subject }}``.
    :param events: what is told; default: everything (``EVENTS``).
    """

    def __init__(self, *, via: Sequence[BaseNotifier] | BaseNotifier, events: Sequence[str] = EVENTS) -> None:
        super().__init__()
        self.via = [via] if isinstance(via, BaseNotifier) else list(via)
        for event in events:
            if event not in EVENTS:
                raise UnknownEvent(event=event, known=", ".join(EVENTS))
        self.events = tuple(events)

    def __repr__(self) -> str:
        """Return the same text in each process: Airflow writes it into the serialized DAG of a mapped task."""
        return f"SchemamigNotifier({', '.join(type(sender).__name__ for sender in self.via)}: {', '.join(self.events)})"

    def notify(self, context: Context) -> None:
        told: Any = dict(context).get(KEY)
        if not isinstance(told, dict) or told["event"] not in self.events:
            return
        for sender in self.via:
            own: Any = dict(context)  # a notifier adds its fields to the context, and rendering changes the notifier itself
            try:
                copy.copy(sender)(own)
            except Exception as error:  # noqa: BLE001 - whatever a mail server or a client library raises; told in the log
                reason = visible(blank(str(error)))
                self.log.error("%s failed for event %r: %s: %s", type(sender).__name__, told["event"], type(error).__name__, reason)


def tell(notifiers: Sequence[BaseNotifier], context: Context, notice: Notice) -> None:
    """Give a notice to notifiers."""
    for notifier in notifiers:
        told: Any = {**context, KEY: notice.to_context(context)}
        notifier(told)
