"""The table of docs/safety.md, "The way back": every kind of change, upgraded, written to, rolled back, and upgraded again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from tests.support.lake import Lake, rows
from tests.support.tables import foreign
from tests.support.upgrades import claimed, deployed, refused, releases, same_as_new, seen, two_releases, whole

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Case:
    """One collection ``t``: ``old`` rows come in at 1.0.0, ``new`` ones at 1.1.0."""

    name: str
    first: str
    second: str
    old: Rows
    new: Rows = ()
    step: str = 'evolution("t")'
    #: The rows as 1.0.0 shows them after the rollback.
    back: Rows = ()
    #: The rows as 1.1.0 shows them after the second upgrade; None: those that 1.1.0 showed before the rollback.
    again: Rows | None = None
    hidden: tuple[str, ...] = ()
    #: Hidden while 1.1.0 has its hold open.
    dropped: tuple[str, ...] = ()
    #: What the rollback says stays behind.
    left: str | None = None


#: Of a key that is declared again, whose rows nobody asked: nothing else stays behind.
KEY_AGAIN = "PRIMARY KEY (id) is declared again"

CASES = [
    Case("add", "id BIGINT", "id BIGINT, a STRING", [{"id": 1}], back=[{"id": 1}]),
    Case(
        "add, rows since",
        "id BIGINT",
        "id BIGINT, a STRING",
        [{"id": 1}],
        [{"id": 2, "a": "x"}],
        back=[{"id": 1}, {"id": 2}],
        hidden=("a",),
        left="column a stays as a hidden column, because files carry it",
    ),
    Case(
        "add inside a struct",
        "id BIGINT, s STRUCT<x: INT>",
        "id BIGINT, s STRUCT<x: INT, y: INT>",
        [{"id": 1, "s": {"x": 1}}],
        back=[{"id": 1, "s": {"x": 1}}],
    ),
    Case(
        "add inside a struct, rows since",
        "id BIGINT, s STRUCT<x: INT>",
        "id BIGINT, s STRUCT<x: INT, y: INT>",
        [{"id": 1}],
        [{"id": 2, "s": {"x": 3, "y": 4}}],
        back=[{"id": 1}, {"id": 2}],
        again=[{"id": 1, "s": None}, {"id": 2, "s": {"x": 3, "y": 4}}],
        hidden=("s.y",),
        left="column s.y stays",
    ),
    Case(
        "drop",
        "id BIGINT, a STRING",
        "id BIGINT",
        [{"id": 1, "a": "x"}],
        [{"id": 2}],
        'evolution("t", drop=["a"])',
        dropped=("a",),
        back=[{"id": 1, "a": "x"}, {"id": 2, "a": None}],
    ),
    Case(
        "drop of NOT NULL",
        "id BIGINT, a STRING NOT NULL",
        "id BIGINT",
        [{"id": 1, "a": "x"}],
        step='evolution("t", drop=["a"])',
        dropped=("a",),
        back=[{"id": 1, "a": "x"}],
    ),
    Case(
        "drop of NOT NULL, rows since",
        "id BIGINT, a STRING NOT NULL",
        "id BIGINT",
        [{"id": 1, "a": "x"}],
        [{"id": 2}],
        'evolution("t", drop=["a"])',
        dropped=("a",),
        back=[{"id": 1, "a": "x"}, {"id": 2, "a": None}],
        left="a stays nullable, because a NULL may have come in",
    ),
    Case(
        "rename",
        "id BIGINT, a STRING",
        "id BIGINT, b STRING",
        [{"id": 1, "a": "x"}],
        [{"id": 2, "b": "y"}],
        'evolution("t", rename={"a": "b"})',
        back=[{"id": 1, "a": "x"}, {"id": 2, "a": "y"}],
    ),
    Case(
        "rename inside a renamed struct",
        "id BIGINT, s STRUCT<x: INT>",
        "id BIGINT, r STRUCT<y: INT>",
        [{"id": 1, "s": {"x": 7}}],
        step='evolution("t", rename={"s": "r", "s.x": "y"})',
        back=[{"id": 1}],
    ),
    Case(
        "names swapped",
        "id BIGINT, a STRING, b STRING",
        "id BIGINT, a STRING, b STRING, c STRING",
        [{"id": 1, "a": "a", "b": "b"}],
        [{"id": 2, "a": "b", "b": "a"}],
        'evolution("t", rename={"a": "b", "b": "a"})',
        back=[{"id": 1, "a": "a", "b": "b"}, {"id": 2, "a": "a", "b": "b"}],
        hidden=("c",),
        left="column c stays",
    ),
    Case(
        "renamed to the name of a dropped one",
        "id BIGINT, a STRING, b STRING",
        "id BIGINT, a STRING",
        [{"id": 1, "a": "dropped", "b": "kept"}],
        [{"id": 2, "a": "kept too"}],
        'evolution("t", rename={"b": "a"}, drop=["a"])',
        dropped=("schemamig_retired_a",),
        back=[{"id": 1, "a": "dropped", "b": "kept"}, {"id": 2, "a": None, "b": "kept too"}],
    ),
    Case(
        "renamed, and a new one takes the name",
        "id BIGINT, a STRING",
        "id BIGINT, a STRING, b STRING",
        [{"id": 1, "a": "first"}],
        [{"id": 2, "a": "new", "b": "first"}],
        'evolution("t", rename={"a": "b"})',
        back=[{"id": 1, "a": "first"}, {"id": 2, "a": "first"}],
        hidden=("schemamig_retired_a",),
        left="column schemamig_retired_a stays",
    ),
    Case(
        "renamed, and a new one of another type takes the name",
        "id BIGINT, a STRING",
        "id BIGINT, a INT COMMENT 'new', b STRING",
        [{"id": 1, "a": "first"}],
        [{"id": 2, "a": 7, "b": "first"}],
        'evolution("t", rename={"a": "b"})',
        back=[{"id": 1, "a": "first"}, {"id": 2, "a": "first"}],
        hidden=("schemamig_retired_a",),
        left="column schemamig_retired_a stays",
    ),
    Case(
        "dropped, and a new one takes the name in other letters",
        "id BIGINT, a STRING",
        "id BIGINT, A STRING",
        [{"id": 1, "a": "first"}],
        [{"id": 2, "A": "new"}],
        'evolution("t", drop=["a"])',
        back=[{"id": 1, "a": "first"}, {"id": 2, "a": None}],
        hidden=("schemamig_retired2_A",),
        dropped=("schemamig_retired_a",),
        left="column schemamig_retired2_A stays",
    ),
    Case(
        "inside a struct renamed, and a new one takes the name",
        "id BIGINT, s STRUCT<x: INT>",
        "id BIGINT, s STRUCT<x: INT, y: INT>",
        [{"id": 1, "s": {"x": 1}}],
        [{"id": 2, "s": {"x": 3, "y": 2}}],
        'evolution("t", rename={"s.x": "y"})',
        back=[{"id": 1, "s": {"x": 1, "schemamig_retired_x": None}}, {"id": 2, "s": {"x": 2, "schemamig_retired_x": 3}}],
        hidden=("s.schemamig_retired_x",),
        left="column s.schemamig_retired_x stays",
    ),
    Case(
        "reorder",
        "id BIGINT, a STRING, b STRING",
        "b STRING, c STRING, id BIGINT, a STRING",
        [{"id": 1, "a": "x", "b": "y"}],
        back=[{"id": 1, "a": "x", "b": "y"}],
    ),
    Case(
        "reorder, rows since",
        "id BIGINT, a STRING, b STRING",
        "b STRING, c STRING, id BIGINT, a STRING",
        [{"id": 1, "a": "x", "b": "y"}],
        [{"id": 2, "c": "z"}],
        back=[{"id": 1, "a": "x", "b": "y"}, {"id": 2, "a": None, "b": None}],
        hidden=("c",),
        left="column c stays",
    ),
    Case(
        "widen",
        "id BIGINT, n INT",
        "id BIGINT, n BIGINT",
        [{"id": 1, "n": 1}],
        [{"id": 2, "n": 2**40}],
        back=[{"id": 1, "n": 1}, {"id": 2, "n": 2**40}],
        left="n stays BIGINT, widening cannot be taken back",
    ),
    Case("relax", "id BIGINT NOT NULL", "id BIGINT", [{"id": 1}], [{"id": 2}], back=[{"id": 1}, {"id": 2}]),
    Case(
        "relax, a NULL since",
        "id BIGINT NOT NULL, a STRING",
        "id BIGINT, a STRING",
        [{"id": 1, "a": "x"}],
        [{"id": None, "a": "y"}],
        back=[{"id": 1, "a": "x"}, {"id": None, "a": "y"}],
        left="id stays nullable",
    ),
    Case("default", "id BIGINT, n INT", "id BIGINT, n INT DEFAULT 7", [{"id": 1}], [{"id": 2}], back=[{"id": 1}, {"id": 2}]),
    Case("default gone", "id BIGINT, n INT DEFAULT 7", "id BIGINT, n INT", [{"id": 1}], [{"id": 2}], back=[{"id": 1}, {"id": 2}]),
    Case(
        "property",
        "id BIGINT) TBLPROPERTIES ('owned_by' = 'me', 'delta.logRetentionDuration' = 'interval 60 days'",
        "id BIGINT) TBLPROPERTIES ('owned_by' = 'you', 'team' = 'ours'",
        [{"id": 1}],
        [{"id": 2}],
        back=[{"id": 1}, {"id": 2}],
    ),
    Case(
        "comment",
        "id BIGINT COMMENT 'one'",
        "id BIGINT COMMENT 'two', a STRING",
        [{"id": 1}],
        back=[{"id": 1}],
    ),
    Case(
        "CHECK dropped",
        "id BIGINT, CONSTRAINT positive CHECK (id > 0)",
        "id BIGINT",
        [{"id": 1}],
        back=[{"id": 1}],
    ),
    Case(
        "CHECK dropped, rows since",
        "id BIGINT, CONSTRAINT positive CHECK (id > 0)",
        "id BIGINT",
        [{"id": 1}],
        [{"id": -1}],
        back=[{"id": -1}, {"id": 1}],
        left="CHECK positive stays dropped, because rows came in without it",
    ),
    Case(
        "PRIMARY KEY dropped",
        "id BIGINT NOT NULL, PRIMARY KEY (id)",
        "id BIGINT NOT NULL",
        [{"id": 1}],
        [{"id": 1}],
        back=[{"id": 1}, {"id": 1}],
        left=KEY_AGAIN,
    ),
]


def table(columns: str) -> str:
    return f"CREATE TABLE t ({columns});"


def shown(lake: Lake) -> list[dict[str, Any]]:
    """The rows of ``t`` in the declared columns but for structs, whose fields are read by hand only."""
    return rows(lake.path("t"), *(column["name"] for column in seen(lake, "t")["declared"]))


def same(found: Sequence[Mapping[str, Any]], wanted: Rows) -> bool:
    """Equal rows in any order; a wanted row may leave columns out."""
    left = list(found)
    for row in wanted:
        match = next((item for item in left if all(item[name] == value for name, value in row.items())), None)
        if match is None:
            return False
        left.remove(match)
    return not left


@pytest.mark.some(5)
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_rolled_back_and_upgraded_again(tmp_path: Path, case: Case) -> None:
    lake = two_releases(tmp_path, table(case.first), table(case.second), case.step)
    foreign.write(lake.path("t"), case.old)
    declared, live = lake.state.release, foreign.metadata(lake.path("t"))
    lake.upgrade(lake.second)
    if case.new:
        foreign.write(lake.path("t"), case.new)
    upgraded = shown(lake)

    outcome = commands.rollback(lake.env)

    assert same(shown(lake), case.back)
    assert lake.state.release == declared
    assert tuple(seen(lake, "t")["hidden"]) == case.hidden
    notes = "; ".join(outcome.notes)
    assert (case.left in notes) if case.left else not notes
    whole(lake)
    if case.left in ("", KEY_AGAIN):
        assert essence(foreign.metadata(lake.path("t"))) == essence(live), "nothing had to stay, and the table is as it was"

    lake.upgrade(lake.second)
    assert same(shown(lake), upgraded if case.again is None else case.again)
    assert seen(lake, "t")["hidden"] == list(case.dropped)
    whole(lake)
    same_as_new(lake, lake.second, tmp_path / "fresh")


def essence(metadata: dict[str, Any]) -> list[Any]:
    """What a table's metaData says but for the table features that stay switched on."""
    fields = json.loads(metadata["schemaString"])["fields"]
    columns = [(f["name"], f["nullable"], f["metadata"].get("comment"), f["metadata"].get("CURRENT_DEFAULT")) for f in fields]
    return [*columns, {key: value for key, value in metadata["configuration"].items() if not key.startswith("delta.columnMapping")}]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_rollback_of_an_upgrade_that_was_never_promoted_names_what_gives_it_up(tmp_path: Path, is_first: bool) -> None:
    table, more = "CREATE TABLE t (id BIGINT);", "CREATE TABLE t (id BIGINT, a INT);"
    found = releases(tmp_path, (table, ""), (more, 'evolution("t")'), (table, 'evolution("t", drop=["a"])'))
    lake = deployed(tmp_path, found[0], found[1])
    if not is_first:
        lake.upgrade(lake.second, hold=timedelta(0))
    generation = claimed(lake, found[1] if is_first else found[2])
    with refused("nothing_to_roll_back") as refusals:
        commands.rollback(lake.env)
    assert f"`schemamig cancel --generation {generation}`" in refusals[0].next_action
