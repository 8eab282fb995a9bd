"""Release folders as they should not be: one clear error with a code, where it is and what to do next, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.product import Product
from tests.unit.cli.samples import SCHEMA_1, SCHEMA_2, STEPS_2, Run, refused


def test_no_release_folder(run: Run, unchanged: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for folder in (tmp_path / "nowhere", tmp_path / "file"):
        for command in ("plan", "upgrade", "preflight"):
            refused(run, command, "--env", unchanged, "--release", folder, code="unreadable_file")


@pytest.mark.some(6)
@pytest.mark.parametrize("name", ["schema.sql", "release.toml", "migrations/v1_1_0.py", "snapshots.lock", "snapshots/1.0.0.sql"])
@pytest.mark.parametrize("what", ["garbage", "folder", "forever"])
def test_a_file_of_the_release_is_not_text(run: Run, unchanged: Path, new_release: Path, name: str, what: str) -> None:
    path = new_release / name
    path.unlink()
    if what == "garbage":
        path.write_bytes(bytes(range(128, 256)) + b"\0")
    elif what == "folder":
        path.mkdir()
    else:
        path.symlink_to(path.name)
    for command in ("plan", "upgrade"):
        refused(run, command, "--env", unchanged, "--release", new_release, code="unreadable_file")


BROKEN_SQL = {
    "type": ("CREATE TABLE flights (\n  id BIGINT,\n  x STRNG)", "unknown_type", "flights", "schema.sql:3:5"),
    "precision": ("CREATE TABLE flights (x DECIMAL(50,2))", "unknown_type", "flights", "schema.sql:1:25"),
    "comma": ("CREATE TABLE flights (id BIGINT,,\n x STRING)", "sql_syntax", None, "schema.sql:1:33"),
    "end": ("CREATE TABLE flights (id BIGINT", "sql_syntax", None, "schema.sql:1:"),
    "statement": ("\nDROP TABLE flights", "unsupported_clause", None, "schema.sql:2:1"),
    "twice": ("CREATE TABLE a (x INT);\nCREATE TABLE a (x INT)", "duplicate_collection", "a", "schema.sql:2:1"),
    "nested": (f"CREATE TABLE a (x {'ARRAY<' * 3000}INT{'>' * 3000})", "sql_syntax", None, "deeper than"),
    "path": ("CREATE TABLE `../../etc` (a INT)", "invalid_name", "../../etc", "schema.sql:1:14"),
    "slash": ("CREATE TABLE `a/b` (a INT)", "invalid_name", "a/b", "schema.sql:1:14"),
    "backtick": ("CREATE TABLE `a``b` (a INT)", "invalid_name", "a`b", "schema.sql:1:14"),
    "ours": ("CREATE TABLE schemamig_x (a INT)", "invalid_name", "schemamig_x", "schema.sql:1:14"),
    "column newline": ("CREATE TABLE a (`x\ny` INT)", "invalid_name", "a", "schema.sql:1:17"),
    "column sql": ("CREATE TABLE a (`x; DROP TABLE b` INT)", "invalid_name", "a", "schema.sql:1:17"),
    "column backtick": ("CREATE TABLE a (`x``y` INT)", "invalid_name", "a", "schema.sql:1:17"),
    "field quote": ("CREATE TABLE a (s STRUCT<`x'y`: INT>)", "invalid_name", "a", "schema.sql:1:26"),
    "check sql": ("CREATE TABLE a (x INT, CONSTRAINT `x`` (1=0` CHECK (x > 1))", "invalid_name", "a", "schema.sql:1:35"),
    "check newline": ("CREATE TABLE a (x INT, CONSTRAINT `c\nd` CHECK (x > 1))", "invalid_name", "a", "schema.sql:1:35"),
    "check ours": ("CREATE TABLE a (x INT, CONSTRAINT schemamig_moved_to_x CHECK (x > 1))", "invalid_name", "a", "schema.sql:1:35"),
    "check reads": ("CREATE TABLE a (x INT, CONSTRAINT c CHECK (x > (SELECT 1 FROM a)))", "sql_syntax", None, "schema.sql:1:"),
    "key name": ("CREATE TABLE a (x INT, CONSTRAINT `p``k` PRIMARY KEY (x))", "invalid_name", "a", "schema.sql:1:35"),
    "property newline": ("CREATE TABLE a (x INT) TBLPROPERTIES ('p\nq' = '1')", "unsafe_property", "a", "schema.sql:1:39"),
    "property quote": ('CREATE TABLE a (x INT) TBLPROPERTIES ("p\'q" = "1")', "unsafe_property", "a", "schema.sql:1:39"),
    "property ours": ("CREATE TABLE a (x INT) TBLPROPERTIES ('schemamig.x' = '1')", "unsafe_property", "a", "schema.sql:1:39"),
    "property check": ("CREATE TABLE a (x INT) TBLPROPERTIES ('delta.constraints.x' = '1=0')", "unsafe_property", "a", "schema.sql:1:39"),
    "property feature": (
        "CREATE TABLE a (x INT) TBLPROPERTIES ('delta.feature.x' = 'supported')",
        "unsafe_property",
        "a",
        "schema.sql:1:39",
    ),
}


@pytest.mark.some(10)
@pytest.mark.parametrize("name", BROKEN_SQL)
def test_broken_sql_names_line_and_column(run: Run, unchanged: Path, new_release: Path, name: str) -> None:
    text, code, collection, where = BROKEN_SQL[name]
    (new_release / "schema.sql").write_text(text)
    error = refused(run, "upgrade", "--env", unchanged, "--release", new_release, code=code, collection=collection)
    assert where in error["message"], error


STEPS = {
    "two steps": (STEPS_2 + ', removal("flights")', "duplicate_steps", "flights"),
    "no such collection": (STEPS_2 + ', removal("nothing")', "unknown_collection", "nothing"),
    "no such column": ('evolution("flights", rename={"zork": "airport"}, drop=["hour"])', "unknown_path", "flights"),
    "path": ('evolution("../../etc")', "invalid_step", None),
    "column": ('evolution("flights", rename={"origin": "a`b"}, drop=["hour"])', "invalid_step", "flights"),
    "no step": ("", "unexplained_change", "flights"),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_that_do_not_fit(run: Run, unchanged: Path, tmp_path: Path, name: str) -> None:
    steps, code, collection = STEPS[name]
    product = Product(tmp_path / "bad", "flights_lake")
    product.release("1.0.0", SCHEMA_1)
    folder = product.release("1.1.0", SCHEMA_2, steps)
    refused(run, "upgrade", "--env", unchanged, "--release", folder, code=code, collection=collection)


@pytest.mark.parametrize(
    "body", ["import os\nSTEPS = []", "STEPS = [__import__('os').system('false')]", "STEPS = (", "STEPS = [1]", "x = 1"]
)
def test_modules_that_are_more_than_steps(run: Run, unchanged: Path, new_release: Path, body: str) -> None:
    (new_release / "migrations" / "v1_1_0.py").write_text(f'"""What.\n\nWhy: so."""\n{body}\n')
    ran = run("upgrade", "--env", unchanged, "--release", new_release, "--json")
    assert ran.exit_code == 1
    assert any("migrations/v1_1_0.py" in item["message"] for item in ran.document["refusals"])


def test_a_name_stays_as_it_was_typed(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A message begins with a capital letter, and `rel` is not `Rel`."""
    monkeypatch.chdir(tmp_path)
    found = run("check", "--release", "rel")
    assert "rel cannot be read" in found.stderr
    assert "`schemamig init DIR`" in found.stderr
