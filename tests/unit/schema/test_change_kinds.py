"""docs/development/adding.md says in which files of core each kind of change stands."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

from airflow_provider_schemamig.core.schema.changes import Change

ROOT = Path(__file__).parents[3]
CORE = ROOT / "airflow_provider_schemamig" / "core"
PAGE = ROOT / "docs" / "development" / "adding.md"
KINDS = [kind.__name__ for kind in get_args(Change)]
#: A line of every kind.
TABLES = {"schema/describe.py", "schema/apply/declaration.py", "delta/metadata/edit.py"}
#: What only code that is about generated columns is called: the field, the change, the clause, the feature, Delta's key.
OF_GENERATED = {"generated", "SetGenerated", "GENERATED", "GENERATED_COLUMNS", "GENERATED_KEY"}


def kinds_in(file: Path) -> set[str]:
    text = file.read_text()
    if "schema.changes import" not in text and "schema import changes" not in text:
        return set()
    names = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name | ast.Attribute)]
    return {node.id if isinstance(node, ast.Name) else node.attr for node in names} & set(KINDS)


def test_the_page_names_the_files_of_each_kind() -> None:
    """Of a line with several files, each kind in one of them at least."""
    found = {str(file.relative_to(CORE)): kinds for file in sorted(CORE.rglob("*.py")) if (kinds := kinds_in(file))}
    assert found.keys() >= TABLES
    shown: set[str] = set()
    for line in PAGE.read_text().partition("### Where each kind stands")[2].partition("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 3 or not cells[0].startswith("`"):
            continue
        files = [name.strip("`") for name in cells[0].split(", ")]
        assert not shown & {*files}, files
        assert cells[1] == ", ".join(kind for kind in KINDS if any(kind in found.get(file, ()) for file in files)), files
        assert all(file in found for file in files), files
        shown |= {*files}
    assert shown == found.keys() - TABLES


def test_generated_columns_stand_in_the_files_of_a_clause() -> None:
    found = set()
    for file in (file for file in sorted(CORE.rglob("*.py")) if "generated" in file.read_text().lower()):
        nodes = list(ast.walk(ast.parse(file.read_text())))
        names = {node.id for node in nodes if isinstance(node, ast.Name)} | {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        if names & OF_GENERATED:
            found.add(str(file.relative_to(CORE)))
    sentence = PAGE.read_text().partition("So only these know of generated columns")[2].partition("\n\n")[0]
    assert found == set(re.findall(r"`([\w/]+\.py)`", sentence))
    assert len(found) < 6
