"""The frozen types of every format: locked, standing alone, the newest equal to what the software uses, and steps that see no more."""

from __future__ import annotations

import ast
import dataclasses
import shutil
import types
import typing
from enum import Enum
from pathlib import Path
from typing import Any

import pendulum
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_schemamig.core.jsonable import TAGS, members_of, to_json
from airflow_provider_schemamig.core.ledger.codec import decode, encode
from airflow_provider_schemamig.core.ledger.format import objects_v1
from airflow_provider_schemamig.core.ledger.format.formats import FORMATS
from airflow_provider_schemamig.core.ledger.rows import FROZEN_COLLECTIONS, ROW_TYPES, records
from airflow_provider_schemamig.core.names import Version
from tests.support.examples import examples
from tests.unit.ledger.format.draft import TYPES, written
from tests.unit.ledger.format.locking import FOLDER, LOCK, LOCKED, complaints, draft, freeze
from tests.unit.ledger.format.synthetic import objects_v0
from tests.unit.ledger.test_codec import FROZEN, OTHERS

SNAPSHOTS = {1: objects_v1}


# --- the lock ------------------------------------------------------------------------------------------------------------------------


def test_nothing_that_ledgers_were_written_by_has_changed() -> None:
    assert complaints() == []


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """As it is once a version is published: nothing is a draft."""
    shutil.copytree(FOLDER, tmp_path / "format", ignore=shutil.ignore_patterns("__pycache__"))
    freeze(tmp_path / "format")
    return tmp_path / "format"


def test_freezing_locks_everything_once(copy: Path) -> None:
    assert complaints(copy) == []
    assert draft(copy) is None
    before = (copy / LOCK).read_bytes()
    (copy / "objects_v1.py").write_text("# changed afterwards\n")
    freeze(copy)
    assert (copy / LOCK).read_bytes() == before, "what is locked keeps its line"


@pytest.mark.parametrize("name", sorted({f"objects_v{FORMATS.minimum}.py", f"objects_v{FORMATS.current}.py"}))
def test_a_changed_file_is_told_with_both_remedies_and_the_line(copy: Path, name: str) -> None:
    (copy / name).write_text((copy / name).read_text() + "\n# one more word\n")
    (text,) = complaints(copy)
    line = text.split("replace its line in objects.lock with\n  ")[1].splitlines()[0]
    assert f"objects_v{FORMATS.current + 1}.py and v{FORMATS.current}_to_v{FORMATS.current + 1}.py" in text
    lock = (copy / LOCK).read_text().splitlines()
    (copy / LOCK).write_text("\n".join(line if item.startswith(f'"{name}"') else item for item in lock))
    assert complaints(copy) == [], "the line may be pasted as it is"


def test_a_new_file_and_a_lost_one_are_told(copy: Path) -> None:
    (copy / "objects_v1.py").rename(copy / "objects_v4.py")
    lost, new = complaints(copy)
    assert "objects_v1.py" in lost
    assert '"objects_v4.py" = "sha256:' in new


def test_a_draft_may_change_and_is_the_newest_only(copy: Path) -> None:
    locked = (copy / LOCK).read_text()
    (copy / LOCK).write_text(f"draft = {FORMATS.current}\n")
    (copy / f"objects_v{FORMATS.current}.py").write_text("# all new\n")
    assert [text for text in complaints(copy) if f"objects_v{FORMATS.current}.py" in text] == []
    (copy / LOCK).write_text(f"draft = {FORMATS.current}\n{locked}")
    assert any("one of the two lines has to go" in text for text in complaints(copy))
    (copy / LOCK).write_text(f"draft = {FORMATS.current + 1}\n{locked}")
    assert any("calls format" in text for text in complaints(copy))


def test_the_types_of_a_draft_follow_from_the_rows_of_the_software() -> None:
    """Else: ``python -m tests.unit.ledger.format.draft``, after every change of a row."""
    if draft() is not None:
        assert TYPES.read_text() == written(TYPES.read_text())


def test_there_is_a_file_of_types_for_each_format_and_a_step_between_each_two() -> None:
    names = {path.name for path in FOLDER.glob("*.py") if LOCKED.fullmatch(path.name)}
    numbers = range(FORMATS.minimum, FORMATS.current + 1)
    assert names == {f"objects_v{number}.py" for number in numbers} | {f"v{number}_to_v{number + 1}.py" for number in numbers[:-1]}
    assert set(SNAPSHOTS) == set(numbers)
    assert [item.types() for item in FORMATS.formats] == [SNAPSHOTS[number].TYPES for number in numbers]


# --- imports -------------------------------------------------------------------------------------------------------------------------

_CORE = "airflow_provider_schemamig.core"
_STANDARD = {"__future__", "collections", "dataclasses", "enum", "typing"}
_OF_TYPES = _STANDARD | {f"{_CORE}.jsonable"}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            own = f"{_CORE}.ledger.format"
            found |= {f"{own}.{alias.name}" for alias in node.names} if node.module == own else {node.module or "."}
    return found


@pytest.mark.parametrize("number", SNAPSHOTS)
def test_types_stand_alone(number: int) -> None:
    assert imports(FOLDER / f"objects_v{number}.py") <= _OF_TYPES


def step_complaints(path: Path, source: int) -> list[str]:
    """What a step's module has to do with other than its two formats, and what it does not say."""
    own = f"{_CORE}.ledger.format"
    allowed = _STANDARD | {f"{own}.objects_v{source}", f"{own}.objects_v{source + 1}", f"{own}.actions"}
    tree = ast.parse(path.read_text())
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    impure = names & {"open", "exec", "eval", "__import__", "globals", "getattr"}
    doc = ast.get_docstring(tree) or ""
    missing = [word for word in ("Why: ", "What: ") if f"\n{word}" not in doc]
    return [*sorted(imports(path) - allowed), *sorted(impure), *missing]


def test_a_step_imports_its_two_formats_and_no_more() -> None:
    for source in range(FORMATS.minimum, FORMATS.current):
        assert step_complaints(FOLDER / f"v{source}_to_v{source + 1}.py", source) == []


def test_a_step_that_does_more_is_found(tmp_path: Path) -> None:
    path = tmp_path / "v1_to_v2.py"
    own = f"{_CORE}.ledger.format"
    imported = f"from dataclasses import replace\nfrom {own} import objects_v1, objects_v2\nfrom {own}.actions import Update\n"
    path.write_text(f'"""Do it.\n\nWhy: it has to be.\n\nWhat: this.\n"""\n{imported}')
    assert step_complaints(path, 1) == []
    path.write_text(f"from {own}.formats import FORMATS\nfrom {own} import objects_v3\nx = eval('1')\n")
    assert step_complaints(path, 1) == [f"{own}.formats", f"{own}.objects_v3", "eval", "Why: ", "What: "]


def test_imports_are_found_however_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "step.py"
    path.write_text("import os\ndef f():\n    from airflow_provider_schemamig.core.ledger.format import formats\n    from . import x\n")
    assert imports(path) == {"os", f"{_CORE}.ledger.format.formats", "."}


# --- shapes --------------------------------------------------------------------------------------------------------------------------


def wire(kind: Any, within: tuple[Any, ...] = ()) -> Any:
    """What a type looks like when it is stored: the fields with their types and defaults, members of unions by name, values of enums."""
    if isinstance(kind, typing.NewType):
        return wire(kind.__supertype__, within)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return "one of", sorted((wire(item, within) for item in arguments), key=repr)
    if origin is tuple:
        return "list", [wire(item, within) for item in arguments]
    if kind is Version or (isinstance(kind, type) and issubclass(kind, pendulum.DateTime)):
        return "str"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "enum", [member.value for member in kind]
    if isinstance(kind, type) and members_of(kind) != (kind,):
        return "one of", sorted((TAGS[item], wire(item, within)) for item in members_of(kind))
    if dataclasses.is_dataclass(kind):
        if kind in within:
            return "again", typing.cast(type[Any], kind).__name__
        hints = typing.get_type_hints(kind)
        fields = {
            f.name: (wire(hints[f.name], (*within, kind)), "required" if f.default is dataclasses.MISSING else to_json(f.default))
            for f in dataclasses.fields(kind)
        }
        return typing.cast(type[Any], kind).__name__, fields
    return kind if kind is Ellipsis else kind.__name__


def test_the_newest_format_is_what_the_software_uses() -> None:
    """Else: a row type was changed without a new format. docs/ledger-format.md says how to make one."""
    assert {kind.__name__: (kind.COLLECTION, wire(kind)) for kind in ROW_TYPES} == {
        kind.__name__: (kind.COLLECTION, wire(kind)) for kind in FORMATS.types(FORMATS.current)
    }


@pytest.mark.parametrize("number", SNAPSHOTS)
def test_frozen_collections_have_the_same_shape_in_every_format(number: int) -> None:
    now = {kind.__name__: wire(kind) for kind in ROW_TYPES if kind.COLLECTION in FROZEN_COLLECTIONS}
    then = {kind.__name__: wire(kind) for kind in FORMATS.types(number) if kind.COLLECTION in FROZEN_COLLECTIONS}
    assert then == now


def test_shapes_tell_what_is_stored_apart() -> None:
    assert wire(objects_v0.Object) != wire(objects_v1.Object)
    assert wire(objects_v1.Object) == wire(records.Object)


@pytest.mark.parametrize("row", [*(row for row, _, _ in FROZEN), *OTHERS], ids=lambda row: type(row).__name__)
def test_a_row_of_the_software_is_a_row_of_the_newest_format_byte_for_byte(row: Any) -> None:
    frozen = {member.__name__: kind for kind in FORMATS.types(FORMATS.current) for member in members_of(kind)}[type(row).__name__]
    collection, key, value = encode(row)
    assert encode(decode(frozen, key, value)) == (collection, key, value)


_TYPES: st.SearchStrategy[Any] = st.recursive(
    st.builds(objects_v1.Primitive, st.sampled_from(["int", "string"])),
    lambda inner: st.one_of(
        st.builds(objects_v1.Array, inner, st.booleans()),
        st.builds(objects_v1.Map, inner, inner, st.booleans()),
        st.builds(lambda kind, name: objects_v1.Struct((objects_v1.Field(name, kind),)), inner, st.text(max_size=3)),
    ),
    max_leaves=5,
)
_TEXT = st.text(max_size=5)
_DECLARATIONS = st.builds(
    objects_v1.Declaration,
    name=_TEXT,
    fields=st.lists(st.builds(objects_v1.Field, _TEXT, _TYPES, st.booleans(), st.none() | _TEXT, st.none() | _TEXT), max_size=3).map(tuple),
    checks=st.lists(st.builds(objects_v1.Check, _TEXT, _TEXT), max_size=1).map(tuple),
    primary_key=st.none() | st.builds(objects_v1.Key, st.just(("a",)), st.none() | _TEXT),
)
_ENTRIES = st.builds(
    objects_v1.SchemaEntry,
    collection=_TEXT,
    schema_id=st.integers(0, 9),
    shard=_TEXT,
    declared=_DECLARATIONS,
    physical=_DECLARATIONS,
    since_table_version=st.integers(0, 99),
    release=st.none() | st.just("1.2.3"),
    stored_names=st.lists(st.tuples(_TEXT, _TEXT), max_size=2).map(tuple),
    uses=st.lists(st.builds(objects_v1.Use, _TEXT, st.integers(0, 9), st.integers(0, 9)), max_size=2).map(tuple),
    rolled_back=st.none() | st.integers(1, 9),
)


@settings(max_examples=examples(30))
@given(_ENTRIES)
def test_any_schema_of_the_newest_format_is_one_of_the_software_byte_for_byte(entry: objects_v1.SchemaEntry) -> None:
    from airflow_provider_schemamig.core.ledger.rows import SchemaEntry

    collection, key, value = encode(entry)
    assert encode(decode(SchemaEntry, key, value)) == (collection, key, value)
