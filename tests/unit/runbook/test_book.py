"""The runbook is whole: every code leads to an entry, every entry has the one shape, and a test follows each of its ways.

``python -m tests.unit.runbook.test_book`` writes its index by code anew.
"""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import airflow_provider_schemamig
from tests.support.airflow.home import SHIPPED
from tests.unit.runbook import book
from tests.unit.runbook.book import Entry, entries, never_at_night
from tests.unit.test_contract import CONTRACT

#: How many lines of text and labels somebody reads at night before the first command.
MAX_LINES, MAX_WAYS = 14, 4
TESTS = sorted(Path(__file__).parent.glob("test_*.py"))
#: Of an upgrade, and of maintenance; any other DAG is one task, or is found by its own name.
TASKS = (
    *("fingerprint", "preflight", "fill_chunks", "fill", "tail", "gate", "approval", "ledger_approval", "promote", "expand", "to_change"),
    *("change", "cutover_and_commit", "cleanup", "contract", "compact"),
)
WEB = Path(airflow_provider_schemamig.__file__).parent / "web"
BEGINS, ENDS = "<!-- codes: written by `python -m tests.unit.runbook.test_book` -->\n", "<!-- end of codes -->"


def index() -> str:
    rows = sorted((code, entry) for entry in entries().values() for code in entry.codes)
    lines = [f"| `{code}` | [{entry.title}](#{entry.anchor}) |" for code, entry in sorted(rows, key=lambda row: row[0])]
    return "\n".join(["| code | entry |", "|---|---|", *lines, ""])


def test_every_code_of_the_contract_leads_to_one_entry_or_never_comes_at_night() -> None:
    contract = {line.split()[1] for line in _contract() if line.startswith("error ")}
    found = Counter(code for entry in entries().values() for code in entry.codes) + Counter(
        code for codes in never_at_night().values() for code in codes
    )
    assert contract - set(found) == set(), "in no entry"
    assert set(found) - contract == set(), "no code of the contract"
    assert {code for code, times in found.items() if times > 1} == set(), "in two places"


def test_the_index_is_that_of_the_entries() -> None:
    text = book.BOOK.read_text()
    assert text.partition(BEGINS)[2].partition(ENDS)[0] == index(), "python -m tests.unit.runbook.test_book writes it anew"


def test_every_entry_is_found_from_what_is_seen() -> None:
    text = book.BOOK.read_text()
    seen = text.partition("## What you see")[2].partition("## Tables")[0] + text.partition("## By code")[2]
    assert [entry.title for entry in entries().values() if f"(#{entry.anchor})" not in seen] == []
    assert [task for task in TASKS if f"`{task}`" not in tables()] == []


def test_every_dag_that_can_be_red_is_found_from_what_is_seen() -> None:
    runs = [dag_id for dag_id in SHIPPED if dag_id != "schemamig_upgrade"]  # whose tasks are
    assert [dag_id for dag_id in runs if f"`{dag_id}`" not in tables()] == []


def test_every_task_that_a_pause_defers_is_found_from_what_is_seen() -> None:
    waits = [line for line in tables().splitlines() if "(deferred)" in line and "#paused-and-nobody-knows-why" in line]
    assert all(any(f"`{task}`" in line for line in waits) for task in ("fingerprint", "preflight", "promote"))
    assert any("any task after it" in line for line in waits)


def test_the_book_explains_what_the_page_says_in_place_of_an_error() -> None:
    """It has codes of its own, which no error has."""
    text = " ".join(entries()["The page shows unreachable or stale"].labels.values())
    shown = {code for file in WEB.glob("*.py") for code in _shown(ast.parse(file.read_text()))}
    assert shown >= {"unreachable", "reader_ended"}
    assert [code for code in shown if f"`{code}`" not in text] == []


def _shown(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "code" and isinstance(value, ast.Constant):
                    yield str(value.value)


def tables() -> str:
    """What somebody sees, before the entries."""
    return book.BOOK.read_text().partition("## What you see")[2].partition("## Tables")[0]


@pytest.mark.parametrize("title", entries())
def test_the_entry_has_the_one_shape(title: str) -> None:
    entry = entries()[title]
    assert tuple(entry.labels) == book.LABELS
    assert all(len(text) > 10 for text in entry.labels.values())
    body = book.BOOK.read_text().partition(f"\n### {title}\n")[2].partition("\n##")[0]
    assert 1 <= len(entry.ways) == body.count("**Type**") <= MAX_WAYS
    assert len([line for line in body.splitlines() if line and not line.startswith(("`", "schemamig", "Codes"))]) <= MAX_LINES


@pytest.mark.parametrize("title", entries())
def test_runbook_what_is_typed_are_commands_of_the_contract(title: str) -> None:
    known = _contract()
    for line in _typed(entries()[title]):
        if line.startswith("mv "):
            continue
        words = line.removeprefix("schemamig ").split()
        name = " ".join(words[:2]) if words[0] in ("ledger", "schema") else words[0]
        where = "schemamig" if name.startswith("--") else f"schemamig {name}"
        options = [] if where == "schemamig" else [word for word in words if word.startswith("--")]
        for option in options:
            assert any(fact.startswith(f"command {where}: option ") and option in fact.split() for fact in known), f"{line}: {option}"
        for needed in re.findall(rf"^command {re.escape(where)}: option (\S+) required", "\n".join(known), re.MULTILINE):
            assert needed in options, f"{line} lacks {needed}"
        assert where == "schemamig" or f"command {where}" in known, line


@functools.cache
def _contract() -> tuple[str, ...]:
    """It is what the code says (test_contract.py)."""
    return tuple(CONTRACT.read_text().splitlines())


def _typed(entry: Entry) -> list[str]:
    return [line for lines in entry.ways.values() for line in lines]


def test_a_test_follows_every_way() -> None:
    followed = {(title, begins) for file in TESTS for title, begins in _followed(file)}
    assert [title for title, _ in followed if title not in entries()] == []
    for title, entry in entries().items():
        for way in entry.ways:
            assert any(item == title and way.startswith(begins) for item, begins in followed), f"{title}: {way}"


def _followed(file: Path) -> list[tuple[str, str]]:
    """The first two texts of each call of ``follow``."""
    calls = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call) and ast.unparse(node.func) == "follow"]
    texts = [[arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)] for call in calls]
    return [(found[0], found[1]) for found in texts if len(found) == 2]


if __name__ == "__main__":
    written = book.BOOK.read_text()
    before, _, rest = written.partition(BEGINS)
    book.BOOK.write_text(before + BEGINS + index() + ENDS + rest.partition(ENDS)[2])
