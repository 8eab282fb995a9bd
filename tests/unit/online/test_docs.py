"""docs/online-changes.md says what the tables say and what the model found."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from airflow_provider_schemamig.core.schema.element_states import DUTIES, ElementClass, ElementState, path
from tests.integration.delta.interleavings import COMMITS, MAPPING, OPERATIONS, OUTCOMES, TABLES, Kind
from tests.unit.online.mutants import MUTANTS
from tests.unit.online.test_model import states_explored

PAGE = Path(__file__).parents[3] / "docs" / "online-changes.md"


def rows(header: str) -> list[list[str]]:
    """The cells of the table with that header."""
    lines = PAGE.read_text().splitlines()
    found = []
    for line in lines[lines.index(header) + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def arrows(states: tuple[ElementState, ...]) -> str:
    return " → ".join(state.name for state in states)


def test_docs_the_classes() -> None:
    expected = [[f"`{cls}`", arrows(path(cls, True)), arrows(path(cls, False))] for cls in ElementClass]
    assert [[cells[0], *cells[2:]] for cells in rows("| class | for | add | remove |")] == expected


def test_docs_the_duties() -> None:
    told = {cells[0]: cells[1:4] for cells in rows("| state | written | removed | read | which means |")}
    duties = {state.name: [duty.written, duty.removed, duty.read] for state, duty in DUTIES.items()}
    assert told == {name: ["yes" if asked else "no" for asked in duty] for name, duty in duties.items()}


def test_docs_the_mutants() -> None:
    """The shortest trace of each, and everything that it can break."""
    expected = []
    for name, group in groupby(MUTANTS, key=lambda mutant: mutant.name):
        mutants = list(group)
        broken = {mutant.breaks.value.rpartition("(")[2].rstrip(")") for mutant in mutants}
        expected.append([name, "; ".join(sorted(broken)), str(min(mutant.length for mutant in mutants))])
    assert [[cells[0], *cells[2:]] for cells in rows("| changed | what happens | broken | moves |")] == expected


def test_the_number_of_states() -> None:
    assert f"{states_explored():,} states" in PAGE.read_text()


def test_online_docs_what_meets_what() -> None:
    expected = []
    for engine, name in (("Spark", "spark"), ("delta-rs", "delta_rs")):
        together: dict[tuple[str, ...], list[str]] = {}
        for statement, found in OUTCOMES.items():
            together.setdefault(tuple(getattr(found[kind], name) for kind in Kind), []).append(statement)
        for words, statements in together.items():
            shown = [word if word == COMMITS else " or ".join(f"`{part}`" for part in word.split("|")) for word in words]
            expected.append([f"{', '.join(statements)} by {engine}", *shown])
    header = (
        "| in flight | our metadata commit | our commit of what it is clustered by | our batch of a backfill | our batch of a clustering |"
    )
    assert rows(header) == expected


def test_the_commits_of_the_operations() -> None:
    expected = []
    for name, case in OPERATIONS.items():
        steps = " → ".join(step for step, _ in groupby(step.name for step in case.steps)) or "none"
        after = {None: "writes on", MAPPING: "appends, updates, deletes, merges; no OPTIMIZE, no ALTER"}
        expected.append([name, steps, after.get(case.shut_out, f"cannot write: `{case.shut_out}`")])
    for name, (_, table_steps) in TABLES.items():
        after_it = "refused by the seal, like Spark; writes on after a rollback" if table_steps else "writes on"
        expected.append([name, " → ".join(step.name for step in table_steps) or "none", after_it])
    assert rows("| operation | commits on the table, in order | delta-rs afterwards |") == expected
