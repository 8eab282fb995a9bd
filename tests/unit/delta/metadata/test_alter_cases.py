"""What Delta refuses to make of a table's metadata, this committer refuses: a table of cases, with what Delta 4.4 said of each.

``tests/integration/delta/test_alter_cases.py`` asks Delta again, and writes the file anew if it is told to.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.delta.commit.create import checked
from airflow_provider_schemamig.core.delta.metadata.edit import edit
from airflow_provider_schemamig.core.delta.metadata.validate import TableState, validate
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.tables.alter_cases import cases
from tests.support.tables.alters import Altered, Created

VERDICTS = Path(__file__).parent / "alter_verdicts.txt"
PAGE = Path(__file__).parents[4] / "docs" / "schema-changes.md"
DONE = "done"

#: Delta's ALTER refuses it, the table that it makes is nothing that Delta refuses: other statements of Spark lead to it.
OTHER_WAYS = {
    "rename to its own name in another case": "two renames",
    "set NOT NULL": "CREATE TABLE, and the rows; ours are asked",
    "date to timestamp_ntz": "after the table feature was added",
    "add of type timestamp_ntz": "after the table feature was added",
    "int to bigint: column under a CHECK": "the CHECK dropped and added",
    "rename under a CHECK": "the CHECK dropped and added",
    "add with a default": "the column first, then its default",
    "files 40 days where the log has 60": "both in one statement",
}


@dataclass(frozen=True)
class Verdict:
    """``done``, or an error's class, of Delta and of ours."""

    delta: str
    ours: str


def verdicts() -> dict[str, Verdict]:
    lines = (line.rsplit(" | ", 2) for line in VERDICTS.read_text(encoding="utf-8").splitlines())
    return {name: Verdict(delta, ours) for name, delta, ours in lines}


def ours(case: Altered | Created) -> str:
    try:
        if isinstance(case, Created):
            checked(case.declaration, "id", "file:///t")
        else:
            protocol, metadata = case.base.actions()[0]["protocol"], case.base.actions()[1]["metaData"]
            before = TableState(protocol, metadata, case.base.clustering)
            validate("file:///t", before, edit(protocol, metadata, case.changes, clustering=case.base.clustering))
    except SchemamigError as refusal:
        return refusal.code
    return DONE


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_the_committer_says_what_is_written_down(case: Altered | Created) -> None:
    assert verdicts()[case.name].ours == ours(case)


def test_what_delta_refuses_is_refused() -> None:
    allowed = {name for name, found in verdicts().items() if found.delta != DONE and found.ours == DONE}
    assert allowed == OTHER_WAYS.keys()
    assert verdicts().keys() == {case.name for case in cases()}


def test_alter_cases_what_is_refused_beyond_is_printed() -> None:
    page = PAGE.read_text(encoding="utf-8")
    section = page.partition("## What Delta refuses")[2].partition("\n## ")[0]
    printed = {line[3:].rstrip("`") for line in section.splitlines() if line.startswith("- `")}
    assert printed == {name for name, found in verdicts().items() if found.delta == DONE and found.ours != DONE}
