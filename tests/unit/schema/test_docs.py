"""docs/schema-changes.md says of every change what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from airflow_provider_schemamig.core.schema.changes import Change, Cost
from tests.unit.schema.inverses import inverse
from tests.unit.schema.test_apply import APPLIED

PAGE = Path(__file__).parents[3] / "docs" / "schema-changes.md"
HEADER = ["op", "what", "outcome", "phase", "drops data", "inverse", "old readers notice", "old writers notice"]


def rows() -> dict[str, dict[str, str]]:
    """op -> its row of the table."""
    lines = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in PAGE.read_text().splitlines() if line.startswith("|")]
    header = lines.index(HEADER)
    found = {}
    for cells in lines[header + 2 :]:
        if not cells[0].startswith("`"):
            break
        found[cells[0].strip("`")] = dict(zip(HEADER, cells, strict=True))
    return found


def test_the_list_is_closed() -> None:
    ops = [kind.op for kind in get_args(Change)]
    assert list(rows()) == ops
    assert len(set(ops)) == len(ops)


@pytest.mark.parametrize("change", [change for change, _, _ in APPLIED], ids=lambda change: change.op)
def test_a_row_is_true(change: Change) -> None:
    row = rows()[change.op]
    back = inverse(change)
    assert row["phase"] == change.phase
    assert row["drops data"] == ("yes" if change.op == "drop_column" else "no")
    assert row["inverse"] == ("none" if back is None else f"`{back.op}`")
    assert change.cost in re.findall(r"`(\w+)`", row["outcome"])


@pytest.mark.parametrize("kind", [kind for kind in get_args(Change) if isinstance(kind.cost, Cost)], ids=lambda kind: kind.op)
def test_a_cost_without_conditions(kind: type[Change]) -> None:
    assert rows()[kind.op]["outcome"] == f"`{kind.cost}`"
