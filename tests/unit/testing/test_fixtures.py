"""Fixture files: missing, edited, damaged, too new, written by hand; and that nothing but the head's is ever written again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.release.check import load_checked
from airflow_provider_schemamig.core.release.folder.errors import UnreadableFile
from airflow_provider_schemamig.core.testing.rows.fixtures import read_fixtures, write_fixtures
from airflow_provider_schemamig.core.testing.rows.generate import GENERATOR
from tests.support.bytes import tree
from tests.support.product import Product
from tests.unit.testing.samples import history


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return history(tmp_path)


def codes(folder: Path) -> list[str]:
    before = tree(folder)
    found = read_fixtures(load_checked(folder))
    assert tree(folder) == before, "reading writes nothing"
    return sorted(refusal.code for refusal in found.refusals)


def edit(folder: Path, file: str, change: Callable[[list[str]], list[str]]) -> None:
    path = folder / "fixtures" / file
    path.write_text("".join(f"{line}\n" for line in change(path.read_text().splitlines())))


def header(**values: object) -> str:
    return json.dumps({"collection": "a", "version": "1.0.0", **values})


def test_a_version_has_those_of_what_it_makes_or_changes(folder: Path) -> None:
    found = sorted(path.relative_to(folder / "fixtures").as_posix() for path in (folder / "fixtures").rglob("*.jsonl"))
    assert found == [
        *("1.0.0/a.jsonl", "1.0.0/old.jsonl", "1.0.0/stats.jsonl"),
        *("1.1.0/a.jsonl", "1.1.0/stats.jsonl", "1.1.0/young.jsonl"),
        *("1.2.0/a.jsonl", "1.2.0/stats.jsonl", "1.2.0/youth.jsonl"),
    ]
    assert codes(folder) == []


def test_written_again_they_are_the_same(folder: Path) -> None:
    before = tree(folder)
    assert write_fixtures(load_checked(folder)).files == ()
    assert tree(folder) == before


CASES: dict[str, tuple[str, Callable[[list[str]], list[str]], list[str]]] = {
    "a value edited": ("1.0.0/a.jsonl", lambda lines: [lines[0], lines[1].replace('"id":', '"id":1'), *lines[2:]], ["fixture_changed"]),
    "a row deleted": ("1.1.0/a.jsonl", lambda lines: lines[:-1], ["fixture_changed"]),
    "no header": ("1.0.0/a.jsonl", lambda lines: lines[1:], ["fixture_damaged"]),
    "empty": ("1.0.0/a.jsonl", lambda lines: [], ["fixture_damaged"]),
    "a newer generator": ("1.0.0/a.jsonl", lambda lines: [header(generator=GENERATOR + 1), *lines[1:]], ["fixture_too_new"]),
    "by hand": ("1.0.0/a.jsonl", lambda lines: [header(generator="hand"), *lines[1:2]], []),
    "by hand, no JSON": ("1.0.0/a.jsonl", lambda lines: [header(generator="hand"), "{"], ["fixture_damaged"]),
    "by hand, no such column": ("1.0.0/old.jsonl", lambda lines: [header(generator="hand"), '{"x":1}'], ["fixture_damaged"]),
    "by hand, spaces": ("1.0.0/old.jsonl", lambda lines: [header(generator="hand"), '{"id": 1}'], ["fixture_not_canonical"]),
    "by hand, two faults": (
        "1.0.0/old.jsonl",
        lambda lines: [header(generator="hand"), '{"id": 1}', '{"id":"x"}'],
        ["fixture_damaged", "fixture_not_canonical"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_rehearsed_fixtures_what_is_wrong_with_a_file(folder: Path, case: str) -> None:
    file, change, expected = CASES[case]
    edit(folder, file, change)
    assert codes(folder) == expected


def test_a_file_that_cannot_be_read_is_said_to_be_so(folder: Path) -> None:
    (folder / "fixtures/1.0.0/a.jsonl").unlink()
    (folder / "fixtures/1.0.0/a.jsonl").mkdir()
    assert codes(folder) == ["unreadable_file"]
    with pytest.raises(UnreadableFile, match="Is a directory"):
        write_fixtures(load_checked(folder))


VALUES = "CREATE TABLE v (s STRING, d DECIMAL(38,10), m MAP<STRING, INT>, f FLOAT, p STRING) PARTITIONED BY (p);"
#: A value by hand -> what is wrong with it.
ROWS: dict[str, tuple[dict[str, object], list[str]]] = {
    "another end of a line": ({"s": "a\u2028b\u0085c\u000bd"}, []),
    "half a character": ({"s": "\ud800"}, ["fixture_damaged"]),
    "all digits": ({"d": "1" * 28 + ".0000000001"}, []),
    "a digit too many": ({"d": "1" * 29 + ".0000000001"}, ["fixture_damaged"]),
    "no number": ({"d": "NaN"}, ["fixture_damaged"]),
    "no key": ({"m": [[None, 1]]}, ["fixture_damaged"]),
    "32 bits": ({"f": 0.5}, []),
    "no 32 bits": ({"f": 0.1}, ["fixture_damaged"]),
    "more than 32 bits": ({"f": 1e39}, ["fixture_damaged"]),
    "a partition that is NULL": ({"p": ""}, ["fixture_damaged"]),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_value_by_hand_is_taken_or_refused_in_words(tmp_path: Path, name: str) -> None:
    row, expected = ROWS[name]
    folder = Product(tmp_path).release("1.0.0", VALUES)
    line = json.dumps(
        {"s": None, "d": None, "m": None, "f": None, "p": None, **row},
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii="ud8" in ascii(row),
    )
    path = folder / "fixtures" / "1.0.0" / "v.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(f'{{"collection":"v","generator":"hand","version":"1.0.0"}}\n{line}\n')
    assert codes(folder) == expected


def test_an_older_generator_is_not_compared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edit(folder, "1.0.0/old.jsonl", lambda lines: lines[:2])
    assert codes(folder) == ["fixture_changed"]
    monkeypatch.setattr("airflow_provider_schemamig.core.testing.rows.fixtures.GENERATOR", GENERATOR + 1)
    assert codes(folder) == [], "of generator 1, one row less; another generator made other rows then"


def test_missing_and_unexpected(folder: Path) -> None:
    (folder / "fixtures/1.0.0/a.jsonl").rename(folder / "fixtures/1.0.0/b.jsonl")
    assert codes(folder) == ["fixture_missing", "fixture_unexpected"]
    assert write_fixtures(load_checked(folder)).files == ("fixtures/1.0.0/a.jsonl",)
    assert codes(folder) == ["fixture_unexpected"]


def test_rehearsed_fixtures_only_the_head_is_written_again(folder: Path) -> None:
    for version in ("1.0.0", "1.2.0"):
        edit(folder, f"{version}/a.jsonl", lambda lines: lines[:-1])
    assert codes(folder) == ["fixture_changed"] * 2
    assert write_fixtures(load_checked(folder)).files == ("fixtures/1.2.0/a.jsonl",)
    assert codes(folder) == ["fixture_changed"]


def test_rows_by_hand_are_kept(folder: Path) -> None:
    edit(folder, "1.2.0/youth.jsonl", lambda lines: [header(generator="hand"), '{"id":7,"x":null}'])
    assert write_fixtures(load_checked(folder)).files == ()
    assert codes(folder) == []


def test_a_raised_minimum_needs_all_collections(tmp_path: Path) -> None:
    folder = history(
        tmp_path,
        (
            ("CREATE TABLE a (id INT); CREATE TABLE b (id INT);", ""),
            ("CREATE TABLE a (id INT, x INT); CREATE TABLE b (id INT);", 'evolution("a")'),
        ),
    )
    (folder / "release.toml").write_text('name = "lake"\nversion = "1.1.0"\nmin_version = "1.1.0"\n')
    for file in ("snapshots/1.0.0.sql", "migrations/v1_1_0.py"):
        (folder / file).unlink()
    lock = (folder / "snapshots.lock").read_text().splitlines(keepends=True)
    (folder / "snapshots.lock").write_text("".join(line for line in lock if "1.0.0" not in line and "v1_1_0" not in line))
    assert codes(folder) == ["fixture_missing", "fixture_unexpected", "fixture_unexpected"]
    assert write_fixtures(load_checked(folder)).files == ("fixtures/1.1.0/b.jsonl",)


def test_beyond_the_generator(tmp_path: Path) -> None:
    folder = history(tmp_path, (("CREATE TABLE a (s STRING, CONSTRAINT c CHECK (regexp_like(s, 'x')));", ""),))
    assert write_fixtures(load_checked(folder)).beyond == {"fixtures/1.0.0/a.jsonl": "c"}
    assert codes(folder) == []
