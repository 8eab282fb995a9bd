"""``schemamig ledger ...``: looking, and repairing by hand."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from airflow_provider_schemamig.cli.main import app
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.codec import RawRow
from airflow_provider_schemamig.core.ledger.history import read_history
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from tests.support.bytes import tree
from tests.unit.cli.samples import Run, conforms, refused
from tests.unit.ledger.samples import append_raw

PAUSED = '{"paused":true,"scope":"*"}'
PAUSE = ["--collection", "pauses", "--key", "*"]


# --- dump ----------------------------------------------------------------------------------------------------------------------------


def test_dump_says_what_it_shows(run: Run, unchanged: Path) -> None:
    version = LedgerReader(Environment.open(str(unchanged))).state().version
    everything = run("ledger", "dump", "--env", unchanged)
    assert f"update(s) up to ledger version {version}" in everything.stdout
    standing = run("ledger", "dump", "--env", unchanged, "--current", "--collection", "shards")
    assert standing.stdout.startswith(f"2 row(s) that stand at ledger version {version}")


def test_dump_of_one_collection_as_of_a_version(run: Run, unchanged: Path) -> None:
    document = run("ledger", "dump", "--env", unchanged, "--collection", "leader", "--as-of", "2", "--json").document
    conforms(document, "dump")
    assert document["version"] == 2
    assert {row["collection"] for row in document["rows"]} == {"leader"}
    first = run("ledger", "dump", "--env", unchanged, "--as-of", "0", "--json").document["rows"]
    assert [(row["collection"], row["key"]) for row in first] == [("config", '"environment"')]


def test_ledger_what_is_dumped_can_be_pasted(run: Run, env: Path) -> None:
    """Cut out of the line as it stands there: key and value are what ``edit`` takes, and they are in place already."""
    lines = run("ledger", "dump", "--env", env, "--current", "--format", "jsonl").stdout.splitlines()
    rows = run("ledger", "dump", "--env", env, "--current", "--json").document["rows"]
    assert len(lines) == len(rows) > 8
    before = tree(env)
    for line, row in zip(lines, rows, strict=True):
        found = json.loads(line)
        key, value = line[line.index('"key":') + 6 : line.index(',"value":')], line[line.index(',"value":') + 9 : line.rindex(',"ts":')]
        assert (found["collection"], key, value, found["ts"], found["diff"]) == tuple(row.values())
        done = run("ledger", "edit", "--env", env, "--collection", found["collection"], "--key", key, "--value", value, "--json")
        assert (done.exit_code, done.document["changed"], done.document["before"]) == (0, False, [value])
    assert tree(env) == before


def test_damaged_rows_are_dumped_under_another_name(run: Run, env: Path) -> None:
    ts = LedgerReader(Environment.open(str(env))).state().version + 1
    texts = ["{", '{"b":1,"a":2}', "NaN", '"\\ud800"', "[" * 50_000, "a\nb"]
    append_raw(Environment.open(str(env)), *(RawRow("elements", f"{number} é", text, ts, 1) for number, text in enumerate(texts)))
    ran = run("ledger", "dump", "--env", env, "--collection", "elements", "--format", "jsonl")
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [row["damaged_value"] for row in found] == texts
    assert [row["damaged_key"] for row in found] == [f"{number} é" for number in range(len(texts))]
    loaded = run("ledger", "dump", "--env", env, "--collection", "elements", "--format", "csv").stdout
    assert [row["value"] for row in csv.DictReader(io.StringIO(loaded))] == texts
    assert run("ledger", "dump", "--env", env).exit_code == 0


def test_dump_for_sql(run: Run, unchanged: Path) -> None:
    text = run("ledger", "dump", "--env", unchanged, "--format", "csv").stdout
    rows = run("ledger", "dump", "--env", unchanged, "--json").document["rows"]
    assert [{**row, "ts": int(row["ts"]), "diff": int(row["diff"])} for row in csv.DictReader(io.StringIO(text))] == rows


@pytest.mark.parametrize("name", ["pause", "flights", ""])
def test_dump_of_a_collection_that_the_ledger_does_not_have_is_refused(run: Run, unchanged: Path, name: str) -> None:
    error = refused(run, "ledger", "dump", "--env", unchanged, "--collection", name, code="unknown_ledger_collection")
    assert "objects, pauses, pins" in error["next"]


def test_an_as_of_that_cannot_be_answered(run: Run, env: Path) -> None:
    refused(run, "ledger", "dump", "--env", env, "--as-of", "99", code="ledger_version_unknown")
    refused(run, "ledger", "dump", "--env", env, "--as-of", "-1", code="ledger_version_unknown")
    run("ledger", "compact", "--env", env)
    refused(run, "ledger", "dump", "--env", env, "--as-of", "1", code="ledger_compacted")


@pytest.mark.parametrize("more", [["--format", "yaml"], ["--format", "csv", "--json"]], ids=" ".join)
def test_ledger_dump_usage(run: Run, unchanged: Path, more: Sequence[str]) -> None:
    ran = run("ledger", "dump", "--env", unchanged, *more)
    assert (ran.exit_code, ran.stdout) == (2, "")


# --- edit and delete -----------------------------------------------------------------------------------------------------------------


def test_a_row_is_written_shown_and_taken_away(run: Run, env: Path) -> None:
    done = run("ledger", "edit", "--env", env, *PAUSE, "--value", PAUSED, "--json")
    assert done.exit_code == 0, done.stdout
    conforms(done.document, "edit")
    assert (done.document["before"], done.document["after"], done.document["changed"]) == ([], PAUSED, True)
    assert run("status", "--env", env, "--json").document["controls"][0]["paused"] is True
    gone = run("ledger", "delete", "--env", env, *PAUSE, "--expect", str(done.document["version"]))
    assert gone.exit_code == 0
    assert PAUSED in gone.stdout
    assert "no row" in gone.stdout
    again = run("ledger", "delete", "--env", env, *PAUSE)
    assert "nothing to do" in again.stdout
    assert [entry.what for entry in read_history(Environment.open(str(env)))][-1] == "ledger delete"
    assert run("ledger", "verify", "--env", env).exit_code == 0


def test_a_value_from_standard_input(env: Path) -> None:
    """A declaration may be longer than a command line can be."""
    rows = LedgerReader(Environment.open(str(env))).state().raw["schemas"]
    key, value = next(iter(rows.items()))
    arguments = ["ledger", "edit", "--env", str(env), "--collection", "schemas", "--key", key, "--value", "-", "--json"]
    done = CliRunner().invoke(app, arguments, input=f"{value}\n")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["changed"] is False


def test_refusals_of_an_edit(run: Run, env: Path, new_release: Path) -> None:
    seen = LedgerReader(Environment.open(str(env))).state().version
    run("ledger", "edit", "--env", env, *PAUSE, "--value", PAUSED)
    command = ["ledger", "edit", "--env", env]
    before = tree(env)
    refused(run, *command, *PAUSE, "--value", "{", code="invalid_row")
    refused(run, *command, *PAUSE, "--value", '{"scope":"*"}', "--expect", seen, code="row_changed")
    refused(run, *command, "--collection", "zork", "--key", "x", "--value", "{}", code="unknown_row")
    refused(run, "ledger", "delete", "--env", env, "--collection", "config", "--key", "environment", "--force", code="row_protected")
    refused(run, "ledger", "delete", "--env", env, "--collection", "objects", "--key", "flights", code="edit_unsound")
    assert tree(env) == before
    assert run("preflight", "--env", env, "--release", new_release).exit_code == 0
    refused(run, "ledger", "delete", "--env", env, *PAUSE, code="looks_alive")
    forced = run("ledger", "delete", "--env", env, *PAUSE, "--force")
    assert forced.exit_code == 0
    assert "forced  generation 2 is claimed" in forced.stdout


# --- verify, size, backup ------------------------------------------------------------------------------------------------------------


def test_verify_names_row_and_remedy(run: Run, env: Path) -> None:
    run("ledger", "delete", "--env", env, "--collection", "objects", "--key", "flights", "--force")
    ran = run("ledger", "verify", "--env", env, "--json")
    assert ran.exit_code == 1
    conforms(ran.document, "verify")
    assert [finding["code"] for finding in ran.document["findings"]] == ["wrong_set_fingerprint", "orphan_shard"]
    shown = run("ledger", "verify", "--env", env).stdout
    for finding in ran.document["findings"]:
        assert f"{finding['code']}  {finding['where']}" in shown
    assert "next: A later upgrade deletes" in shown


def test_verify_looks_at_the_tables(run: Run, env: Path) -> None:
    import shutil

    shutil.rmtree(env / "flights")
    ran = run("ledger", "verify", "--env", env, "--json")
    assert [finding["code"] for finding in ran.document["findings"]] == ["table_missing"]


def test_size_for_people(run: Run, unchanged: Path) -> None:
    document = run("ledger", "size", "--env", unchanged, "--json").document
    conforms(document, "size")
    shown = " ".join(run("ledger", "size", "--env", unchanged).stdout.split())
    assert "1.0.0" in shown
    assert f"would take away {document['compaction']['rows']} update(s)" in shown
    for item in document["collections"]:
        assert item["collection"] in shown


def test_a_backup_of_a_damaged_ledger_says_so(run: Run, env: Path, tmp_path: Path) -> None:
    ts = LedgerReader(Environment.open(str(env))).state().version + 1
    append_raw(Environment.open(str(env)), RawRow("holds", '"1"', "{", ts, 1))
    ran = run("ledger", "backup", tmp_path / "kept", "--env", env)
    assert ran.exit_code == 0
    assert 'not sound: 1 finding(s), unreadable_row at holds "1"' in ran.stdout


def test_no_backup_is_made_in_an_environment_or_in_a_table(run: Run, unchanged: Path, tmp_path: Path) -> None:
    """It would be lost together with what it is to bring back, or a VACUUM would delete it."""
    (table,) = (unchanged / "flights").iterdir()
    for folder, reason in (
        (unchanged, "an environment is there"),
        (unchanged / "backup", f"it is inside of the environment file://{unchanged}"),
        (table, "it is the folder of a Delta table"),
        (table / "backup", "it is the folder of a Delta table, or inside of one"),
    ):
        error = refused(run, "ledger", "backup", "--env", unchanged, folder, code="backup_unusable")
        assert error["message"].startswith(f"no backup is made in {folder}: {reason}"), folder
        assert (error["next"].split(",")[0], "restore" in error["next"]) == ("Give a folder of its own", False)


def test_a_second_backup_in_one_folder_is_told_of_backups_and_not_of_a_restore(run: Run, env: Path, tmp_path: Path) -> None:
    for _ in range(2):  # of one state of the ledger it is the same one
        assert run("ledger", "backup", "--env", env, tmp_path / "kept").exit_code == 0
    assert run("pause", "--env", env).exit_code == 0
    error = refused(run, "ledger", "backup", "--env", env, tmp_path / "kept", code="backup_unusable")
    assert error["message"] == f"no backup is made in {tmp_path / 'kept'}: there is a backup already."
    assert "a backup never overwrites what is there" in error["next"]
