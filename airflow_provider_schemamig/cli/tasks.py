"""The answers of commands that control running work, or run one task of the protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_schemamig.cli.output import Answer
from airflow_provider_schemamig.cli.progress import watched

if TYPE_CHECKING:
    from rich.console import Console

    from airflow_provider_schemamig.core.ledger.rows import Control
    from airflow_provider_schemamig.core.progress import Listener
    from airflow_provider_schemamig.core.upgrade.context.context import Outcome


def run_task(task: Callable[[Listener], Outcome], *, without_stages: str = "") -> Answer:
    """Run a task under progress; its outcome is the answer. ``without_stages``: what people read where there was no stage."""
    with watched() as listen:
        document = task(listen).to_json()

    def show(to: Console) -> None:
        from airflow_provider_schemamig.cli.render.common import show_outcome

        show_outcome(to, document, without_stages)

    return Answer(document, show)


def control_answer(control: Control, others: Sequence[Control] = ()) -> Answer:
    """Answer with a control; ``others``: what still makes work wait, for people, with what takes it back."""
    from airflow_provider_schemamig.core.upgrade.status import control_json

    document: Mapping[str, Any] = control_json(control)

    def show(to: Console) -> None:
        from rich.text import Text

        from airflow_provider_schemamig.cli.render.common import print_indented
        from airflow_provider_schemamig.cli.render.rows import control_text

        to.print(control_text(document))
        for other in map(control_json, others):
            to.print(Text.assemble("still: ", control_text(other)))
            named = f" --collection {other['collection']}" if other["collection"] else ""
            print_indented(to, Text.assemble(("next: ", "bold"), f"`schemamig resume{named}` takes it back."))

    return Answer(document, show)
