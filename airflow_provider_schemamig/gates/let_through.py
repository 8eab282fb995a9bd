"""Which generation a gate has let through, as its task pushes it: promotion takes that one alone, whatever was planned since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import Context

#: The key of the XCom.
LET_THROUGH = "let_through"


class Gate:
    """An operator that lets a generation through to promotion. ``plan_task_id``: the task that planned it, or empty."""

    plan_task_id: str


@dataclass(frozen=True, slots=True)
class LetThrough:
    """``plan_task_id``: of the task that planned the generation. ``environment``, and ``path``, the task that a gate follows: empty if
    unknown."""

    generation: int
    plan_task_id: str = ""
    environment: str = ""
    path: str = ""


def let_through_from(found: Mapping[str, Any]) -> LetThrough:
    """Return what a gate pushed."""
    texts = (str(found[name]) for name in ("plan_task_id", "environment", "path"))
    return LetThrough(int(found["generation"]), *texts)


def push_let_through(context: Context, known: LetThrough) -> None:
    """Push what a gate lets through."""
    context["ti"].xcom_push(key=LET_THROUGH, value=asdict(known))
