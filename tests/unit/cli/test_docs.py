"""docs/cli.md and the code say the same: commands, exit codes, and the two closed lists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import typer
from typer.main import get_command

from airflow_provider_schemamig.cli import compare
from airflow_provider_schemamig.cli.main import app
from airflow_provider_schemamig.cli.output import Exit
from airflow_provider_schemamig.core.html.moments import MOMENTS
from airflow_provider_schemamig.core.schema.changes import Change
from airflow_provider_schemamig.core.upgrade.plan.stages import PLAN_KINDS, STAGE_KINDS

TEXT = (Path(__file__).parents[3] / "docs" / "cli.md").read_text()


def first_cells(heading: str) -> list[str]:
    """The first column of the table below a heading, without its backticks."""
    section = re.split(r"^##+ ", TEXT.split(f"## {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    rows = [line.split("|")[1].strip().strip("`") for line in section.splitlines() if line.startswith("|")]
    return rows[2:]


def commands(group: typer.core.TyperGroup, prefix: str = "") -> set[str]:
    found: set[str] = set()
    for name, command in group.commands.items():
        found |= commands(command, f"{name} ") if isinstance(command, typer.core.TyperGroup) else {prefix + name}
    return found


def test_every_command_is_documented_and_every_documented_one_exists() -> None:
    group = get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    documented = {re.sub(r" (--|[A-Z]).*", "", cell) for cell in first_cells("Commands")}
    assert documented == commands(group)


def test_every_command_takes_json() -> None:
    group = get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    inner = [found.commands for found in group.commands.values() if isinstance(found, typer.core.TyperGroup)]
    assert len(inner) == 2
    for commands_ in (group.commands, *inner):
        for name, command in commands_.items():
            if not isinstance(command, typer.core.TyperGroup):
                assert "--json" in {option for parameter in command.params for option in parameter.opts}, name


def test_docs_exit_codes() -> None:
    assert [int(cell) for cell in first_cells("Exit codes")] == sorted(Exit)


def test_docs_stage_kinds() -> None:
    assert tuple(first_cells("stages.kind")) == STAGE_KINDS


def test_ops_of_changes() -> None:
    in_code = [change.op for change in get_args(Change)] + [compare.CREATE_COLLECTION, compare.DROP_COLLECTION]
    assert first_cells("changes.op") == in_code


def test_the_plan_tree_has_a_place_for_every_kind() -> None:
    placed = [kind for _, _, kinds in MOMENTS for kind in kinds]
    assert sorted(placed) == sorted(PLAN_KINDS)
