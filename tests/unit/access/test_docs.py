"""docs/handles.md says what becomes of readers and writers at each change; here each line of its table is tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from tests.support.tables import foreign
from tests.support.upgrades import claimed, make_holds_due
from tests.unit.access.cases import CASES, Case
from tests.unit.access.support import lake_of, reads, writes

PAGE = Path(__file__).parents[3] / "docs" / "handles.md"
#: The columns of the page's table, after the change.
ROLES = (
    "old reader, in the hold",
    "old reader, after contract",
    "new reader, before",
    "old writer, in the hold",
    "old writer, after contract",
    "new writer, before",
)


def table() -> dict[str, tuple[str, ...]]:
    lines = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    start = next(number for number, line in enumerate(lines) if tuple(line[1:]) == ROLES)
    found = {}
    for line in lines[start + 1 :]:
        if len(line) != len(ROLES) + 1:
            break
        found[line[0]] = tuple(line[1:])
    return found


def test_the_page_lists_the_changes_that_are_tried_and_no_others() -> None:
    assert list(table()) == [case.name for case in CASES]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_handle_docs_what_the_page_says_is_what_happens(case: Case, tmp_path: Path) -> None:
    lake = lake_of(tmp_path, case)
    foreign.write(lake.path("t"), case.rows)
    generation = claimed(lake, lake.second)
    found = {"new reader, before": reads(lake, "1.1.0"), "new writer, before": writes(lake, "1.1.0")}
    assert generation
    lake.upgrade(lake.second)
    found |= {"old reader, in the hold": reads(lake, "1.0.0"), "old writer, in the hold": writes(lake, "1.0.0")}
    assert (reads(lake, "1.1.0"), writes(lake, "1.1.0")) == ("served", "served")
    make_holds_due(lake)
    commands.contract(lake.env)
    found |= {"old reader, after contract": reads(lake, "1.0.0"), "old writer, after contract": writes(lake, "1.0.0")}
    expected = tuple(text.split(",")[0] for text in table()[case.name])
    assert tuple(found[role] for role in ROLES) == expected
