"""The one table of table features: held against Delta's own list, against the docs, and against features that are named elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.schema.delta_rules.table_features import FEATURES, Commits, TableFeature, with_required

ROOT = Path(__file__).parents[4]
HOME = ROOT / "airflow_provider_schemamig" / "core" / "schema" / "delta_rules" / "table_features.py"
PAGE = ROOT / "docs" / "table-features.md"
DELTAS_LIST = Path(__file__).with_name("delta_features.txt")
#: Names under which the catalog's feature went before Delta 4.4.
OF_BEFORE = {"catalogOwned-preview", "catalog-owned-preview"}
#: Words that are a feature's name and something else: an action, a field of ``commitInfo``, an online change and a finding about it.
HOMONYMS = {
    "domainMetadata": {
        "delta/action_forms.py",
        "delta/actions.py",
        "delta/commit/commit.py",
        "delta/commit/create.py",
        "delta/commit/row_ids.py",
        "delta/log/snapshot.py",
        "transfer/file_rewrite.py",
    },
    "inCommitTimestamp": {"delta/actions.py", "delta/commit/append.py"},
    "clustering": {"online/operations/cluster_by.py", "upgrade/element_status.py", "upgrade/verify/log.py"},
}


def switches(row: TableFeature) -> list[str]:
    """The properties and keys that switch a feature on."""
    return [key for key, _ in row.properties] + [key for key in (row.field_key, row.domain) if key]


def deltas_list() -> dict[str, tuple[int, int, set[str]]]:
    found = {}
    for line in DELTAS_LIST.read_text().splitlines()[1:]:
        name, reader, writer, *required = line.split()
        found[name] = int(reader), int(writer), set(required[0].split(",")) if required else set()
    return found


def test_the_table_of_features_has_all_that_delta_has() -> None:
    assert DELTAS_LIST.read_text().startswith("# TableFeature.allSupportedFeaturesMap of delta-spark 4.4.0:")
    assert FEATURES.keys() == deltas_list().keys() | OF_BEFORE


@pytest.mark.parametrize("name", sorted(deltas_list()))
def test_a_feature_asks_for_the_protocol_that_delta_says(name: str) -> None:
    row = FEATURES[name]
    assert (row.reader, row.writer, set(row.requires)) == deltas_list()[name]
    assert with_required(name) <= FEATURES.keys()


def test_no_property_key_or_type_brings_two_features() -> None:
    rows = FEATURES.values()
    brings = [switch for row in rows for switch in row.properties]
    brings += [(key, "") for row in rows for key in (row.field_key, row.type_name, row.property_prefix, row.domain) if key]
    assert len(brings) == len(set(brings))
    assert all(row.commits is Commits.OURS for row in rows if row.properties or row.field_key or row.type_name)


#: Most texts hold none of all the words.
ANY_WORD = re.compile("|".join({re.escape(word) for row in FEATURES.values() for word in (row.name, *switches(row))}))


def literals(tree: ast.AST) -> Iterator[str]:
    """Texts of a module, without docstrings."""
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    firsts = [node.body[0] for node in ast.walk(tree) if isinstance(node, holders) and node.body]
    prose = {id(first.value) for first in firsts if isinstance(first, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def features_named(text: str) -> set[str]:
    """Features that a text names, by name or by a property or key that they are switched on by.

    A name that is also a plain word counts only by itself: nobody can tell what a sentence means by it.
    """
    found: set[str] = set()
    if ANY_WORD.search(text) is None:
        return found
    for row in FEATURES.values():
        names = [row.name] if re.search("[A-Z]", row.name) else []
        there = (name for name in (*names, *switches(row)) if name in text)
        if text == row.name or any(re.search(rf"(?<![\w.]){re.escape(name)}(?![\w-]|\.\w)", text) for name in there):
            found.add(row.name)
    return found


def named_in(path: Path) -> set[str]:
    inside = str(path.relative_to(HOME.parents[2])) if HOME.parents[2] in path.parents else ""
    found = {name for text in literals(ast.parse(path.read_text(encoding="utf-8"))) for name in features_named(text)}
    return {name for name in found if inside not in HOMONYMS.get(name, ())}


def test_no_other_file_of_the_product_names_a_feature() -> None:
    files = [path for folder in ("airflow_provider_schemamig", "spark_jobs") for path in (ROOT / folder).rglob("*.py") if path != HOME]
    assert len(files) > 300
    assert {str(path.relative_to(ROOT)): names for path in files if (names := named_in(path))} == {}


@pytest.mark.parametrize(
    "text, feature",
    [
        ("clustering", "clustering"),
        ("the feature typeWidening is on", "typeWidening"),
        ("delta.enableChangeDataFeed", "changeDataFeed"),
        ("set 'delta.appendOnly'", "appendOnly"),
        ("CURRENT_DEFAULT", "allowColumnDefaults"),
    ],
)
def test_the_look_for_names_of_features_can_fail(text: str, feature: str) -> None:
    assert features_named(text) == {feature}


def cells(row: TableFeature) -> list[str]:
    """What docs/table-features.md says of a feature."""
    by = [f"`{key} = {value}`" for key, value in row.properties] + [f"`{row.property_prefix}*`"] * bool(row.property_prefix)
    by += [f"`{key}`" for key in (row.field_key, row.type_name) if key]
    beside = [f"`{pair.other}`" for pair in row.forbids]
    adopted = {Commits.OURS: "yes", Commits.UNKNOWN: "read-only", Commits.CATALOG: "no"}[row.commits]
    return [
        f"`{row.name}`",
        row.called,
        f"{row.reader or '-'}, {row.writer}",
        ", ".join(f"`{name}`" for name in row.requires),
        ", ".join(by),
        ", ".join(beside),
        "yes" if row.delta_rs_reads else "no",
        "yes" if row.delta_rs_appends else "no",
        adopted,
    ]


def docs_rows() -> list[str]:
    return [f"| {' | '.join(cells(row))} |".replace("|  |", "| |").replace("|  |", "| |") for row in FEATURES.values()]


def test_the_docs_page_of_features_says_what_the_table_says() -> None:
    """A page of before is made anew by ``python -m tests.unit.schema.delta_rules.test_table_features``."""
    assert [line for line in PAGE.read_text().splitlines() if line.startswith("| `")] == docs_rows()


def test_the_docs_of_arrow_handles_say_which_features_delta_rs_reads() -> None:
    line = next(line for line in (ROOT / "docs" / "handles.md").read_text().splitlines() if line.startswith("| reading |"))
    done, left = (set(cell.strip().split(", ")) for cell in line.strip("|").split("|")[1:])
    called = {row.called: row.delta_rs_reads for row in FEATURES.values()}
    assert {called.get(words) for words in done} == {True}
    assert not any(called.get(words) for words in left)


if __name__ == "__main__":
    kept = [line for line in PAGE.read_text().splitlines() if not line.startswith("| `")]
    at = next(number for number, line in enumerate(kept) if line.startswith("|---")) + 1
    PAGE.write_text("\n".join([*kept[:at], *docs_rows(), *kept[at:]]) + "\n")
