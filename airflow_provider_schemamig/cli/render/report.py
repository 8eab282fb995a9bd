"""A deployment for a terminal: its facts, the plan as a tree, how far its work is, what was done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from airflow_provider_schemamig.cli.render.common import hold_text, way
from airflow_provider_schemamig.cli.render.plan import plan_tree
from airflow_provider_schemamig.cli.render.rows import control_text, progress_table, show_history
from airflow_provider_schemamig.core.times import minute_of
from airflow_provider_schemamig.core.upgrade.plan.explain import Explanation

if TYPE_CHECKING:
    from rich.console import Console


def show_report(to: Console, document: Mapping[str, Any]) -> None:
    """Print what ``schemamig report`` tells."""
    item = document["deployment"]
    heading = Text.assemble((document["release"], "bold cyan"), "  ").append_text(way(item["from"], item["to"]))
    to.print(heading.append(f"   generation {item['generation']}, {item['state']}", style="dim"))
    to.print(
        f"claimed {minute_of(item['created_at'])} by {item['claimed_by']}; approved by {item['approved_by'] or 'nobody'}", soft_wrap=True
    )
    if item["promoted_by"]:
        to.print(f"promoted by {item['promoted_by']}, schemamig {item['promoted_with']}")
    plan = document["plan"]
    if plan is None:
        to.print("Preflight left no report of this deployment.", style="dim")
    else:
        for tree in plan_tree([Explanation.from_json(stage) for stage in plan["explanations"]], explain=True):
            to.print()
            to.print(tree)
    to.print()
    if document["progress"]:
        to.print(progress_table(document["progress"]))
    for control in document["controls"]:
        to.print(control_text(control))
    show_history(to, document["timeline"])
    if document["hold"] is not None:
        to.print()
        to.print(hold_text({**document["hold"], "kept_by": []}))
