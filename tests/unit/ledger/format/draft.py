"""The newest format as long as no version of the package is published with it (docs/ledger-format.md).

    .venv/bin/python -m tests.unit.ledger.format.draft
        after a change of core/ledger/rows: write the format's types anew
    .venv/bin/python -m tests.unit.ledger.format.draft --freeze
        before a version is published: lock them, and archive a ledger of them

Declarations (what is above the line "rows" of ``objects_vN.py``) are changed by hand: their types come from ``core/schema/model.py``.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

from airflow_provider_schemamig.core.ledger.rows import FORMAT_VERSION, controls, holds, intents, records
from tests.unit.ledger.format.fixtures.make import LAKES, archive
from tests.unit.ledger.format.locking import FOLDER, freeze

TYPES = FOLDER / f"objects_v{FORMAT_VERSION}.py"
ARCHIVES = Path(__file__).parent / "fixtures"
_ROWS = re.compile(r"^# --- rows;.*$\n", re.MULTILINE)
_STORED_AS = {
    "pendulum.DateTime": "str",
    "Version": "str",
    "CollectionName": "str",
    "ColumnPath": "str",
    "Fingerprint": "str",
    "ShardId": "str",
    "Epoch": "int",
    "Generation": "int",
    "SchemaId": "int",
}


def written(before: str) -> str:
    """The text of ``objects_vN.py`` that follows from the software's rows; ``before``: as it was."""
    line = _ROWS.search(before)
    assert line is not None, "the line between declarations and rows is gone"
    trees = [_Plain().visit(ast.parse(Path(str(module.__file__)).read_text())) for module in (controls, holds, intents, records)]
    classes = [ast.unparse(node) for tree in trees for node in tree.body if isinstance(node, ast.ClassDef) or _is_union(node)]
    names = ", ".join(row_type.__name__ for row_type in records.ROW_TYPES)
    return _formatted("\n\n\n".join([before[: line.end()], *classes, f"TYPES: tuple[type, ...] = ({names})"]))


class _Plain(ast.NodeTransformer):
    """Fields and keys, as they are stored: no words, no other methods, no types of ours."""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        self.generic_visit(node)
        node.body = [item for item in node.body if not _is_words(item) and (not isinstance(item, ast.FunctionDef) or item.name == "key")]
        node.body = node.body or [ast.Pass()]
        return node

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(_STORED_AS.get(node.id, node.id))

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        stored = _STORED_AS.get(ast.unparse(node))
        return self.generic_visit(node) if stored is None else ast.Name(stored)


def _is_union(node: ast.stmt) -> bool:
    """Return whether it says under which tags classes are stored."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "union"


def _is_words(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _formatted(text: str) -> str:
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(TYPES), "-"]
    return subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout


def main(*, frozen: bool) -> None:
    TYPES.write_text(written(TYPES.read_text()))
    if frozen:
        for name in LAKES:
            archive(name, ARCHIVES)
        freeze()


if __name__ == "__main__":
    main(frozen="--freeze" in sys.argv)
