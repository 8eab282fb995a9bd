"""Every command on real small environments: documents, exit codes, and what must not be written. No JVM."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.upgrade.status import Status
from tests.support.bytes import tree
from tests.unit.cli.samples import SCHEMA_1, Run, conforms

# --- releases and files ----------------------------------------------------------------------------------------------------------


def test_a_new_release_folder_passes_its_check(run: Run, tmp_path: Path) -> None:
    made = run("init", tmp_path / "flights-lake", "--json")
    assert made.exit_code == 0, made.stderr
    conforms(made.document, "init")
    assert made.document["name"] == "flights-lake"
    assert made.document["uri"] == f"file://{tmp_path}/flights-lake"
    checked = run("check", "--release", tmp_path / "flights-lake", "--json")
    assert checked.exit_code == 0, checked.stdout
    conforms(checked.document, "check")


def test_a_folder_that_is_not_empty_is_left_alone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    before = tree(tmp_path)
    refused = run("init", tmp_path, "--json")
    assert refused.exit_code == 1
    conforms(refused.document, "failure")
    assert tree(tmp_path) == before


def test_snapshot_freezes_what_was_edited(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    run("init", folder)
    (folder / "schema.sql").write_text(SCHEMA_1)
    assert run("check", "--release", folder).exit_code == 1
    frozen = run("snapshot", "--release", folder, "--json")
    assert frozen.exit_code == 0, frozen.stdout
    conforms(frozen.document, "snapshot")
    assert (folder / "snapshots" / "1.0.0.sql").read_text() == SCHEMA_1
    assert run("check", "--release", folder).exit_code == 0
    assert run("snapshot", "--release", f"file://{folder}", "--json").document["files"] == []


def test_check_reports_every_refusal_at_once(run: Run, new_release: Path) -> None:
    module = new_release / "migrations" / "v1_1_0.py"
    module.write_text(module.read_text().replace('drop=["hour"]', 'drop=["minute"]'))
    snapshot = new_release / "snapshots" / "1.0.0.sql"
    snapshot.write_text(snapshot.read_text() + "-- edited")
    checked = run("check", "--release", new_release, "--json")
    assert checked.exit_code == 1
    conforms(checked.document, "failure")
    codes = [refusal["code"] for refusal in checked.document["refusals"]]
    assert len(codes) >= 2
    text = run("check", "--release", new_release)
    assert text.stdout == ""
    assert all(code in text.stderr for code in codes)


STRUCT_1 = {
    "type": "struct",
    "fields": [
        {"name": "tailnum", "type": "string", "nullable": True, "metadata": {}},
        {"name": "year", "type": "integer", "nullable": True, "metadata": {}},
    ],
}
STRUCT_2 = {**STRUCT_1, "fields": [STRUCT_1["fields"][0], {"name": "year", "type": "long", "nullable": True, "metadata": {}}]}
PLANES = "CREATE TABLE planes (tailnum STRING, year INT);"
KEYED = "CREATE TABLE planes (tailnum STRING, year BIGINT, CONSTRAINT modern CHECK (year > 1950)) PARTITIONED BY (year);"

DIFFS = [
    ("equal sql", PLANES, PLANES, "none", False, []),
    ("widened json", STRUCT_1, STRUCT_2, "instant", False, [(None, "change_type", "year")]),
    ("json to sql", STRUCT_1, PLANES, "none", False, []),
    ("sql to json", PLANES, STRUCT_2, "instant", False, [("planes", "change_type", "year")]),
    ("against a struct only columns count", STRUCT_1, KEYED, "instant", False, [("planes", "change_type", "year")]),
    ("narrowed", STRUCT_2, STRUCT_1, "online", False, [(None, "change_type", "year")]),
    ("two collections", SCHEMA_1, PLANES, "instant", True, [("flights", "drop_collection", None)]),
    ("another", PLANES, SCHEMA_1, "instant", False, [("flights", "create_collection", None)]),
    ("dropped", PLANES, "CREATE TABLE planes (tailnum STRING)", "instant", True, [("planes", "drop_column", "year")]),
]


def schema_file(folder: Path, name: str, content: Any) -> Path:
    path = folder / (f"{name}.sql" if isinstance(content, str) else f"{name}.json")
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize(("old", "new", "outcome", "drops", "changes"), [case[1:] for case in DIFFS], ids=[case[0] for case in DIFFS])
def test_cli_commands_diff(
    run: Run, tmp_path: Path, old: Any, new: Any, outcome: str, drops: bool, changes: list[tuple[str, str, str]]
) -> None:
    files = schema_file(tmp_path, "old", old), schema_file(tmp_path, "new", new)
    ran = run("diff", *files, "--json")
    assert ran.exit_code == 0, ran.stdout
    conforms(ran.document, "diff")
    assert ran.document["outcome"] == outcome
    assert ran.document["drops_data"] == drops
    assert [(change["collection"], change["op"], change["path"]) for change in ran.document["changes"]] == changes
    assert run("diff", *files).stdout.startswith(outcome)


BAD_FILES: list[tuple[str, str, str, str]] = [
    ("missing", "", "", "unreadable_schema"),
    ("no json", "a.json", "{", "unreadable_schema"),
    ("another json", "a.json", '{"type": "struct"}', "unreadable_schema"),
    ("a field without a name", "a.json", '{"type": "struct", "fields": [{"type": "long"}]}', "unreadable_schema"),
    ("another suffix", "a.txt", PLANES, "unreadable_schema"),
    ("broken sql", "a.sql", "CREATE TABLE planes (tailnum", "sql_syntax"),
    ("several collections against one struct", "a.sql", SCHEMA_1, "not_one_collection"),
]


@pytest.mark.parametrize(("name", "content", "code"), [case[1:] for case in BAD_FILES], ids=[case[0] for case in BAD_FILES])
def test_diff_says_what_is_wrong_with_a_file(run: Run, tmp_path: Path, name: str, content: str, code: str) -> None:
    if name:
        (tmp_path / name).write_text(content)
    ran = run("diff", tmp_path / (name or "missing.sql"), schema_file(tmp_path, "new", STRUCT_1), "--json")
    assert ran.exit_code == 1
    conforms(ran.document, "failure")
    assert ran.document["error"]["code"] == code


# --- an environment's life -------------------------------------------------------------------------------------------------------


def test_an_upgrade_and_the_way_back(run: Run, env: Path, old_release: Path, new_release: Path) -> None:
    assert run("plan", "--env", env, "--release", old_release, "--json").exit_code == 0
    planned = run("plan", "--env", env, "--release", new_release, "--json")
    assert planned.exit_code == 3
    conforms(planned.document, "plan")
    assert (planned.document["from"], planned.document["to"]) == ("1.0.0", "1.1.0")
    ops = {change["op"] for stage in planned.document["stages"] for change in stage["changes"]}
    assert ops >= {"add_column", "rename_column", "change_type", "drop_column"}

    upgraded = run("upgrade", "--release", new_release, "--json", "--hold", "30m", "--env", env)
    assert upgraded.exit_code == 0, upgraded.stdout + upgraded.stderr
    conforms(upgraded.document, "outcome")
    assert upgraded.document["to"] == "1.1.0"
    assert [hold["from"] for hold in upgraded.document["pending"]] == ["1.0.0"]

    now = run("status", "--env", env, "--json")
    assert now.exit_code == 0
    conforms(now.document, "status")
    assert now.document["version"] == "1.1.0"
    assert set(now.document["collections"]) == {"airlines", "flights", "planes"}
    assert now.document["collections"]["flights"]["hidden"] == ["hour"]

    back = run("rollback", "--env", env, "--json")
    assert back.exit_code == 0, back.stdout + back.stderr
    conforms(back.document, "outcome")
    assert back.document["to"] == "1.0.0"
    assert run("status", "--env", env, "--json").document["version"] == "1.0.0"


def test_the_tasks_one_by_one(run: Run, env: Path, new_release: Path) -> None:
    checked = run("preflight", "--env", env, "--release", new_release, "--hold", "0", "--claim-id", "me", "--json")
    assert checked.exit_code == 0, checked.stdout
    conforms(checked.document, "preflight")
    generation, digest = checked.document["generation"], checked.document["plan_digest"]
    again = run("preflight", "--env", env, "--release", new_release, "--hold", "0", "--claim-id", "me", "--json")
    assert (again.document["generation"], again.document["plan_digest"]) == (generation, digest)
    approved = run("approve", "--generation", generation, "--plan", digest, "--env", env, "--json")
    assert approved.exit_code == 0, approved.stdout
    conforms(approved.document, "approve")
    for task in ("promote", "expand", "change", "cutover", "cleanup", "contract"):
        done = run(task, "--env", env, "--generation", generation, "--json")
        assert done.exit_code == 0, f"{task}: {done.stdout}"
        conforms(done.document, "outcome")
    flights = run("status", "--env", env, "--json").document["collections"]["flights"]
    assert [column["name"] for column in flights["physical"]] == ["flight_id", "airport", "distance", "gust"]


def test_promote_and_cancel_say_what_they_did(run: Run, env: Path, new_release: Path) -> None:
    claim = ("preflight", "--env", env, "--release", new_release, "--json")
    generation = run(*claim).document["generation"]
    cancelled = run("cancel", "--env", env, "--generation", generation).stdout
    assert f"Generation {generation} is over" in cancelled and "Nothing to do" not in cancelled
    generation = run(*claim).document["generation"]
    promoted = " ".join(run("promote", "--env", env, "--generation", generation).stdout.split())
    assert f"next: `schemamig expand --env {env} --generation {generation}`" in promoted and "Nothing to do" not in promoted


def test_commands_nothing_to_do_is_done(run: Run, env: Path, old_release: Path) -> None:
    done = run("upgrade", "--env", env, "--release", old_release, "--json")
    assert done.exit_code == 0
    assert done.document["stages"] == []
    assert "Nothing to do." in run("upgrade", "--env", env, "--release", old_release).stdout


def test_the_environment_may_come_from_the_variable(run: Run, env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEMAMIG_ENV", f"file://{env}")
    assert run("status", "--json").document["version"] == "1.0.0"


def test_watching_draws_what_changes_until_it_is_stopped(run: Run, env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_schemamig.cli.commands import status as command
    from airflow_provider_schemamig.core import commands

    first = commands.status(Environment.open(str(env)))
    looks = [first, first, replace(first, document={**first.document, "version": "9.9.9"}, drifted=("flights",))]

    def look(environment: Environment) -> Status:
        if not looks:
            raise KeyboardInterrupt
        return looks.pop(0)

    monkeypatch.setattr(commands, "status", look)
    monkeypatch.setattr(command, "WATCH_SECONDS", 0)
    watched = run("status", "--env", env, "--watch")
    assert watched.stdout.count("at 1.0.0") == 1
    assert watched.stdout.count("at 9.9.9") == 1
    assert watched.exit_code == 3, "that of the last look"


def test_commands_the_ledger(run: Run, env: Path, old_release: Path, tmp_path: Path) -> None:
    for name in ("dump", "verify", "size", "epoch"):
        ran = run("ledger", name, "--env", env, "--json")
        assert ran.exit_code == 0, ran.stdout
        conforms(ran.document, name)
    assert run("ledger", "epoch", "--env", env, "--json").document == {"generation": 1, "epoch": 1}
    kept = run("ledger", "backup", tmp_path / "backup", "--env", env, "--json")
    assert kept.exit_code == 0, kept.stdout
    conforms(kept.document, "backup")
    before = run("ledger", "dump", "--env", env, "--json").document
    shutil.rmtree(env / "_schemamig")
    assert run("status", "--env", env, "--json").document["error"]["code"] == "no_environment"
    restored = run("ledger", "restore", "--env", env, tmp_path / "backup", "--json")
    assert restored.exit_code == 0, restored.stdout
    conforms(restored.document, "restored")
    then = run("ledger", "dump", "--env", env, "--as-of", before["version"], "--json").document
    assert then == before
    assert restored.document["epoch"] > 2**16
    shutil.rmtree(env / "_schemamig" / "ledger")
    rebuilt = run("ledger", "rebuild", "--env", env, "--release", old_release, "--json")
    assert rebuilt.exit_code == 0, rebuilt.stdout
    conforms(rebuilt.document, "rebuilt")
    assert run("ledger", "rebuild", "--env", env, "--release", old_release, "--json").document["error"]["code"] == "ledger_there"
    compacted = run("ledger", "compact", "--env", env, "--json")
    assert compacted.exit_code == 0, compacted.stdout
    conforms(compacted.document, "compact")


def test_a_damaged_ledger_is_found(run: Run, env: Path) -> None:
    data = next((env / "_schemamig" / "ledger").glob("*.parquet"))
    data.write_bytes(b"not parquet")
    found = run("ledger", "verify", "--env", env, "--json")
    assert found.exit_code == 1
    conforms(found.document, "verify")
    assert found.document["findings"]
    assert found.document["error"]["code"] == "ledger_unsound"
    assert found.document["findings"][0]["code"] in run("ledger", "verify", "--env", env).stdout


# --- exit codes ------------------------------------------------------------------------------------------------------------------

USAGE = [
    ("no command", []),
    ("unknown command", ["destroy"]),
    ("unknown option", ["status", "--env", "x", "--force"]),
    ("no environment", ["status"]),
    ("no release", ["plan", "--env", "x"]),
    ("option before the command", ["--env", "x", "status"]),
    ("generation is no number", ["promote", "--env", "x", "--generation", "one"]),
    ("generation is not positive", ["promote", "--env", "x", "--generation", "0"]),
    ("hold is no time", ["upgrade", "--env", "x", "--release", "y", "--hold", "soon"]),
    ("hold is negative", ["upgrade", "--env", "x", "--release", "y", "--hold", "-1h"]),
    ("hold is for ever", ["upgrade", "--env", "x", "--release", "y", "--hold", "99999d"]),
    ("window is no window", ["throttle", "--env", "x", "--window", "night"]),
    ("pin needs a collection", ["pin", "--env", "x", "--hours", "5"]),
    ("pin needs hours", ["pin", "--env", "x", "--collection", "y", "--hours", "0"]),
    ("watch is no document", ["status", "--env", "x", "--watch", "--json"]),
    ("a schema's difference needs two", ["schema", "diff", "x"]),
    ("release is not on this machine", ["check", "--release", "s3://bucket/release"]),
]


@pytest.mark.parametrize("arguments", [case[1] for case in USAGE], ids=[case[0] for case in USAGE])
def test_commands_usage_errors(run: Run, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run(*arguments)
    assert ran.exit_code == 2
    assert "Traceback" not in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_drift_is_3_and_refuses_a_plan(run: Run, env: Path, new_release: Path) -> None:
    from deltalake import DeltaTable, Field, Schema
    from deltalake.schema import PrimitiveType

    uri = run("status", "--env", env, "--json").document["collections"]["planes"]["uri"]
    DeltaTable(uri).alter.add_columns(Schema([Field("seats", PrimitiveType("integer"))]).fields)
    drifted = run("status", "--env", env, "--json")
    assert drifted.exit_code == 3
    assert "seats" in " ".join(drifted.document["collections"]["planes"]["drift"])
    shown = run("status", "--env", env)
    assert shown.exit_code == 3
    assert "seats" in shown.stdout
    refused = run("plan", "--env", env, "--release", new_release, "--json")
    assert refused.exit_code == 1
    conforms(refused.document, "plan")
    assert [(item["code"], item["collection"]) for item in refused.document["refusals"]] == [("drift", "planes")]
    assert refused.document["error"] == refused.document["refusals"][0]
    text = run("plan", "--env", env, "--release", new_release)
    assert text.exit_code == 1
    assert "drift  planes" in text.stdout


REFUSALS = [
    ("no environment", ["status", "--env", "{tmp}/nowhere"], "no_environment"),
    ("a scheme nobody knows", ["status", "--env", "ftp://host/lake"], "invalid_location"),
    ("no release folder", ["plan", "--env", "{env}", "--release", "{tmp}/nowhere"], "unreadable_file"),
    ("unknown generation", ["promote", "--env", "{env}", "--generation", "99"], "unknown_generation"),
    ("committed is not approved", ["approve", "--env", "{env}", "--generation", "1", "--plan", "0" * 64], "wrong_state"),
    ("nothing to follow", ["tail", "--env", "{env}", "--generation", "99"], "unknown_generation"),
    ("nothing to give up", ["cancel", "--env", "{env}", "--generation", "99"], "unknown_generation"),
    ("committed is no claim", ["cancel", "--env", "{env}", "--generation", "1"], "wrong_state"),
    ("the first release has no way back", ["rollback", "--env", "{env}"], "nothing_to_roll_back"),
    ("no backup", ["ledger", "restore", "--env", "{env}", "{tmp}/nowhere"], "backup_unusable"),
]


@pytest.mark.parametrize(("arguments", "code"), [case[1:] for case in REFUSALS], ids=[case[0] for case in REFUSALS])
def test_refusals_are_1_and_change_nothing(run: Run, env: Path, tmp_path: Path, arguments: list[str], code: str) -> None:
    arguments = [argument.format(env=env, tmp=tmp_path) for argument in arguments]
    before = tree(tmp_path)
    refused = run(*arguments, "--json")
    assert refused.exit_code == 1, refused.stdout
    conforms(refused.document, "failure")
    assert refused.document["error"]["code"] == code
    assert tree(tmp_path) == before


def test_a_conflict_is_75(run: Run, env: Path, new_release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_schemamig.core.ledger.errors import LedgerConflict
    from airflow_provider_schemamig.core.ledger.store import LedgerWriter

    def lost(self: LedgerWriter, *arguments: Any, **options: Any) -> None:
        raise conflict_of(LedgerConflict)

    monkeypatch.setattr(LedgerWriter, "transact", lost)
    beaten = run("preflight", "--env", env, "--release", new_release, "--json")
    assert beaten.exit_code == 75
    conforms(beaten.document, "failure")
    assert beaten.document["error"]["retryable"] is True


def conflict_of(kind: type[Any]) -> Exception:
    """An error of this class with placeholders in its fields."""
    from dataclasses import MISSING, fields

    required = [field for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING]
    error: Exception = kind(**{field.name: 1 if field.type in ("int", int) else "x" for field in required})
    return error


# --- read-only -------------------------------------------------------------------------------------------------------------------

READ_ONLY = [
    ["plan", "--env", "{env}", "--release", "{new}"],
    ["plan", "--env", "{env}", "--release", "{new}", "--explain"],
    ["plan", "--env", "{env}", "--release", "{new}", "--check-data"],
    ["plan", "--env", "{env}", "--release", "{old}"],
    ["plan", "--env", "{tmp}/empty", "--release", "{new}"],
    ["status", "--env", "{env}", "--cluster"],
    ["status", "--env", "{tmp}/empty"],
    ["history", "--env", "{env}"],
    ["history", "--env", "{tmp}/empty"],
    ["check", "--release", "{new}"],
    ["diff", "{old}/schema.sql", "{new}/schema.sql"],
    ["ledger", "dump", "--env", "{env}"],
    ["ledger", "dump", "--env", "{env}", "--as-of", "2", "--current", "--collection", "objects"],
    ["ledger", "verify", "--env", "{env}"],
    ["ledger", "size", "--env", "{env}"],
    ["ledger", "epoch", "--env", "{env}"],
]


@pytest.mark.some(12)
@pytest.mark.parametrize("arguments", READ_ONLY, ids=" ".join)
@pytest.mark.parametrize("form", [["--json"], []], ids=["json", "text"])
def test_read_only_commands_change_no_byte(
    run: Run, env: Path, old_release: Path, new_release: Path, tmp_path: Path, arguments: list[str], form: list[str]
) -> None:
    before = tree(tmp_path)
    ran = run(*(argument.format(env=env, old=old_release, new=new_release, tmp=tmp_path) for argument in arguments), *form)
    assert ran.exit_code in (0, 1, 3)
    assert '"internal"' not in ran.stdout + ran.stderr
    assert tree(tmp_path) == before
