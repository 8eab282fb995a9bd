"""Bad input, as a stranger gives it: one clear error with a code, where it is and what to do next; no byte of the environment changes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from typer.main import get_command

from airflow_provider_schemamig.cli.main import app
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.codec import RawRow
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from tests.support.bytes import tree
from tests.support.product import Product
from tests.unit.cli.samples import SCHEMA_1, Run, refused
from tests.unit.ledger.samples import append_raw

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"


# --- where the environment should be ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("uri", ["foo://x", "s3:/lake", "s3://", "file://host/x", "a\nb", "`x`", "s3://b/../c", " "])
def test_no_usable_uri(run: Run, new_release: Path, uri: str) -> None:
    refused(run, "plan", "--env", uri, "--release", new_release, code="invalid_location")


def test_a_name_that_no_file_system_has_is_no_conflict(run: Run) -> None:
    """Trying again helps nobody."""
    error = refused(run, "status", "--env", "/" + 300 * "x", code="invalid_location")
    assert "File name too long" in error["message"]


def test_a_release_folder_is_no_place_for_an_environment(run: Run, old_release: Path) -> None:
    before = tree(old_release)
    for command in (("status",), ("upgrade", "--release", old_release, "--create"), ("ledger", "restore", old_release)):
        error = refused(run, *command, "--env", old_release, code="no_environment")
        assert error["message"].endswith(f"{old_release}, but a release folder.")
        assert error["next"] == "Give the root of an environment; a release folder is what --release takes."
    assert tree(old_release) == before


def test_no_environment_named(run: Run, new_release: Path) -> None:
    for arguments in (["plan", "--release", new_release], ["status"], ["ledger", "dump"]):
        ran = run(*arguments, "--json")
        assert (ran.exit_code, ran.stdout) == (2, "")
        assert "--env" in ran.stderr


def test_the_environment_is_a_file(run: Run, new_release: Path, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    for env in (path, path / "below"):
        for command in (("plan",), ("upgrade",), ("upgrade", "--create")):
            refused(run, *command, "--env", env, "--release", new_release, code="invalid_location")
        refused(run, "status", "--env", env, code="invalid_location")
    assert path.read_text() == "x"


def test_a_closed_endpoint_is_told_in_bounded_time_and_without_the_secret(
    run: Run, new_release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {
        "aws_endpoint": f"http://127.0.0.1:{port}",
        "aws_allow_http": "true",
        "aws_region": "us-east-1",
        "aws_access_key_id": "AKIAEXAMPLE",
        "aws_secret_access_key": SECRET,
    }
    monkeypatch.setenv("SCHEMAMIG_STORAGE_OPTIONS", json.dumps(options))
    monkeypatch.setenv("SCHEMAMIG_DEBUG", "1")
    for name, *more in (("upgrade", "--release", new_release), ("status",)):
        started = time.monotonic()
        ran = run(name, "--env", "s3://bucket/lake", *more, "--json")
        assert time.monotonic() - started < 60
        assert ran.exit_code == 75, ran.stdout
        assert ran.document["error"]["code"] == "storage_unreachable"
        assert SECRET not in ran.stdout + ran.stderr


def test_storage_options_that_are_none(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SCHEMAMIG_STORAGE_OPTIONS", f"not json {SECRET}")
    ran = run("status", "--env", tmp_path, "--json")
    assert ran.exit_code == 2
    assert SECRET not in ran.stdout + ran.stderr


def test_a_secret_is_written_nowhere(run: Run, new_release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEMAMIG_STORAGE_OPTIONS", json.dumps({"aws_secret_access_key": SECRET}))
    env, printed = tmp_path / "lake", ""
    for command in (["upgrade", "--release", new_release, "--hold", "0"], ["status"], ["plan", "--release", new_release, "--explain"]):
        for shape in ([], ["--json"]):
            ran = run(*command, "--env", env, *shape)
            printed += ran.stdout + ran.stderr
    printed += run("ledger", "dump", "--env", env, "--json").stdout
    assert SECRET not in printed
    assert not [path for path, (content, _) in tree(env).items() if content and SECRET.encode() in content]


# --- Java and JARs ------------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def needs_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A release with a replacement that is filled by a query; the session that other tests of this process may have is not found."""
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    product = Product(tmp_path / "filled", "flights_lake")
    product.release("1.0.0", SCHEMA_1)
    schema = SCHEMA_1.replace("year INT", "year STRING")
    return product.release("1.1.0", schema, 'replacement("planes", fill="SELECT tailnum, CAST(year AS STRING) AS year FROM {planes}")')


def test_bad_input_no_java(run: Run, unchanged: Path, needs_spark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    error = refused(run, "upgrade", "--env", unchanged, "--release", needs_spark, code="java_missing")
    assert "apt-get install" in error["next"]


def test_bad_input_no_jars(run: Run, unchanged: Path, needs_spark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jars").mkdir()
    monkeypatch.setenv("SCHEMAMIG_JARS", str(tmp_path / "jars"))
    error = refused(run, "upgrade", "--env", unchanged, "--release", needs_spark, code="spark_jars_missing")
    assert "`schemamig jars --fetch`" in error["next"]


# --- the ledger ---------------------------------------------------------------------------------------------------------------------------

EVERY_COMMAND: dict[str, Callable[[Path, Path], list[object]]] = {
    "plan": lambda release, _: ["--release", release],
    "upgrade": lambda release, _: ["--release", release],
    "preflight": lambda release, _: ["--release", release],
    "approve": lambda *_: ["--generation", 1, "--plan", "0" * 64],
    "reject": lambda *_: ["--generation", 1, "--plan", "0" * 64],
    "promote": lambda *_: ["--generation", 1],
    "expand": lambda *_: ["--generation", 1],
    "change": lambda *_: ["--generation", 1],
    "cutover": lambda *_: ["--generation", 1],
    "cleanup": lambda *_: ["--generation", 1],
    "contract": lambda *_: [],
    "rollback": lambda *_: [],
    "tail": lambda *_: ["--generation", 1, "--once"],
    "cancel": lambda *_: ["--generation", 1],
    "pause": lambda *_: [],
    "postpone": lambda *_: [],
    "resume": lambda *_: [],
    "force": lambda *_: ["--collection", "flights"],
    "throttle": lambda *_: ["--max-files", 8],
    "pin": lambda *_: ["--collection", "flights", "--hours", 400],
    "unpin": lambda *_: ["--collection", "flights"],
    "compact": lambda *_: [],
    "verify": lambda *_: [],
    "alter": lambda *_: ["ALTER TABLE flights ADD COLUMN n INT"],
    "adopt": lambda release, folder: ["--release", release, "--table", f"flights={folder}"],
    "accept": lambda release, _: ["--release", release],
    "revert": lambda *_: ["--collection", "flights"],
    "unmanage": lambda *_: ["--collection", "flights"],
    "status": lambda *_: [],
    "history": lambda *_: [],
    "report": lambda *_: [],
    "schema status": lambda *_: [],
    "schema refresh": lambda *_: [],
    "ledger dump": lambda *_: [],
    "ledger verify": lambda *_: [],
    "ledger size": lambda *_: [],
    "ledger epoch": lambda *_: [],
    "ledger compact": lambda *_: [],
    "ledger upgrade": lambda *_: [],
    "ledger edit": lambda *_: ["--collection", "pauses", "--key", "*", "--value", '{"scope":"*"}', "--force"],
    "ledger delete": lambda *_: ["--collection", "pauses", "--key", "*", "--force"],
    "ledger backup": lambda _, folder: [folder / "backup"],
    "ledger rebuild": lambda release, _: ["--release", release],
}


def of_format(env: Path, number: int) -> None:
    """Make it an environment whose ledger other software wrote."""
    opened = Environment.open(str(env))
    state = LedgerReader(opened).state()
    ts, key = state.version + 1, '"environment"'
    stored = state.stored("config", key)
    assert stored is not None
    other = json.dumps({**json.loads(stored), "format_version": number}, sort_keys=True, separators=(",", ":"))
    append_raw(opened, RawRow("config", key, stored, ts, -1), RawRow("config", key, other, ts, 1))


@pytest.mark.some(6)
@pytest.mark.parametrize("command", EVERY_COMMAND)
def test_a_ledger_of_a_newer_format(run: Run, env: Path, new_release: Path, tmp_path: Path, command: str) -> None:
    of_format(env, 99)
    before = tree(env)
    arguments = EVERY_COMMAND[command](new_release, tmp_path)
    error = refused(run, *command.split(), *arguments, "--env", env, code="ledger_too_new")
    assert "99" in error["message"]
    assert tree(env) == before
    assert not (tmp_path / "backup").exists()


@pytest.mark.some(6)
@pytest.mark.parametrize("command", EVERY_COMMAND)
def test_a_ledger_of_a_format_that_is_no_longer_known(run: Run, env: Path, new_release: Path, tmp_path: Path, command: str) -> None:
    of_format(env, 0)
    before = tree(env)
    error = refused(run, *command.split(), *EVERY_COMMAND[command](new_release, tmp_path), "--env", env, code="ledger_too_old")
    assert "formats from 1 on" in error["message"]
    assert tree(env) == before
    assert not (tmp_path / "backup").exists()


@pytest.mark.some(10)
@pytest.mark.parametrize("command", [name for name in EVERY_COMMAND if name != "ledger verify"])
@pytest.mark.parametrize("victim", ["*.parquet", "_delta_log/*.json"])
def test_a_ledger_that_is_garbage(run: Run, env: Path, new_release: Path, tmp_path: Path, command: str, victim: str) -> None:
    for path in (env / "_schemamig" / "ledger").glob(victim):
        path.write_bytes(b"\xff garbage \0" * 20)
    before = tree(env)
    ran = run(*command.split(), *EVERY_COMMAND[command](new_release, tmp_path), "--env", env, "--json")
    assert ran.exit_code == 1, ran.stdout
    assert ran.document["error"]["code"] in ("ledger_damaged", "backup_unusable"), ran.stdout
    assert ran.document["error"]["next"]
    assert tree(env) == before


@pytest.mark.parametrize("text", [b"", b"{}", b"\xff\0", None])
def test_a_stored_plan_that_is_garbage(run: Run, env: Path, new_release: Path, text: bytes | None) -> None:
    assert run("preflight", "--env", env, "--release", new_release, "--json").exit_code == 0
    for path in (env / "_schemamig" / "plans").iterdir():
        path.unlink() if text is None else path.write_bytes(text)
    before = tree(env)
    code = "plan_missing" if text is None else "ledger_damaged"
    refused(run, "promote", "--env", env, "--generation", 2, code=code)
    assert tree(env) == before


# --- the tables ---------------------------------------------------------------------------------------------------------------------------


def rewritten(env: Path, collection: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the actions of a live table's version 0 by hand."""
    (log,) = (env / collection).glob("*/_delta_log/00000000000000000000.json")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for action in lines:
        change(action)
    log.write_text("".join(json.dumps(action) + "\n" for action in lines))


def with_feature(name: str) -> Callable[[dict[str, Any]], None]:
    def change(action: dict[str, Any]) -> None:
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [name], "writerFeatures": [name]}

    return change


@pytest.mark.parametrize(
    ("feature", "code"),
    [("fromTheFuture", "unsupported_feature"), ("catalogManaged", "catalog_managed"), ("catalogOwned-preview", "catalog_managed")],
)
def test_a_table_that_is_not_ours_to_change(run: Run, env: Path, new_release: Path, feature: str, code: str) -> None:
    rewritten(env, "flights", with_feature(feature))
    before = tree(env)
    for command in ("plan", "upgrade", "preflight"):
        refused(run, command, "--env", env, "--release", new_release, code=code, collection="flights")
    assert tree(env) == before


@pytest.mark.parametrize("victim", ["garbage", "no metadata", "hole"])
def test_a_table_whose_log_is_damaged(run: Run, env: Path, new_release: Path, victim: str) -> None:
    (log,) = (env / "flights").glob("*/_delta_log/00000000000000000000.json")
    if victim == "garbage":
        log.write_bytes(b"\xff\0")
    elif victim == "no metadata":
        log.write_text(json.dumps({"commitInfo": {}}) + "\n")
    else:
        log.rename(log.with_name("00000000000000000003.json"))
        log.with_name("00000000000000000003.json").write_text(json.dumps({"commitInfo": {}}) + "\n")
    before = tree(env)
    for command in ("plan", "upgrade"):
        ran = run(command, "--env", env, "--release", new_release, "--json")
        assert ran.exit_code == 1, ran.stdout
        assert ran.document["error"]["code"] in ("log_damaged", "log_truncated"), ran.stdout
        assert ran.document["error"]["collection"] == "flights"
    assert tree(env) == before


# --- no right to read or write ------------------------------------------------------------------------------------------------------------


def as_a_stranger(*arguments: object) -> tuple[int, Any]:
    """The command in a process of its own that file modes bind: root without its capability to go over them."""
    command = [sys.executable, "-m", "airflow_provider_schemamig.cli.main", *map(str, arguments), "--json"]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root needs setpriv to be bound by file modes")
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *command]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if "setpriv:" in ran.stderr:
        pytest.skip(f"no capabilities to give up here: {ran.stderr}")
    return ran.returncode, json.loads(ran.stdout)


@pytest.mark.parametrize("command", ["upgrade", "pause"])
def test_a_ledger_that_may_not_be_written_is_no_conflict(env: Path, new_release: Path, command: str) -> None:
    log = env / "_schemamig" / "ledger" / "_delta_log"
    log.chmod(0o555)
    try:
        code, document = as_a_stranger(command, "--env", env, *(["--release", new_release] if command == "upgrade" else []))
    finally:
        log.chmod(0o755)
    assert (code, document["error"]["code"]) == (1, "storage_forbidden")


def test_a_folder_that_may_not_be_written(env: Path, new_release: Path) -> None:
    before = tree(env)
    folders = [path for path in (env, *env.rglob("*")) if path.is_dir()]
    for folder in folders:
        folder.chmod(0o555)
    try:
        code, document = as_a_stranger("upgrade", "--env", env, "--release", new_release)
        looked, status = as_a_stranger("status", "--env", env)
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert (code, document["error"]["code"]) == (1, "storage_forbidden")
    assert (looked, status["version"]) == (0, "1.0.0")
    assert tree(env) == before


@pytest.mark.some(1)
@pytest.mark.parametrize(("victim", "collection"), [("_schemamig", None), ("flights", "flights"), ("_schemamig/ledger/*.parquet", None)])
def test_something_that_may_not_be_read(env: Path, new_release: Path, victim: str, collection: str | None) -> None:
    before, paths = tree(env), list(env.glob(victim))
    modes = [path.stat().st_mode for path in paths]
    for path in paths:
        path.chmod(0)
    try:
        answers = [as_a_stranger("plan", "--env", env, "--release", new_release), as_a_stranger("status", "--env", env)]
    finally:
        for path, mode in zip(paths, modes, strict=True):
            path.chmod(mode)
    for code, document in answers:
        assert (code, document["error"]["code"], document["error"]["collection"]) == (1, "storage_forbidden", collection)
    assert tree(env) == before


def test_a_release_that_may_not_be_read(env: Path, new_release: Path) -> None:
    new_release.chmod(0)
    try:
        code, document = as_a_stranger("plan", "--env", env, "--release", new_release)
    finally:
        new_release.chmod(0o755)
    assert code == 1
    assert {item["code"] for item in document["refusals"]} <= {"unreadable_file", "invalid_lock"}


def test_every_command_is_tried_on_a_ledger_of_a_newer_format() -> None:
    """A new command has to say what it does with one. Those left out have no environment with a ledger."""
    commands = get_command(app).commands  # type: ignore[attr-defined]
    groups = ("ledger", "schema")
    named = commands.keys() - set(groups) | {f"{group} {name}" for group in groups for name in commands[group].commands}
    assert named - set(EVERY_COMMAND) == {
        "init",
        "jars",
        "new",
        "rebase",
        "check",
        "lint",
        "snapshot",
        "diff",
        "test",
        "fixtures",
        "ledger restore",
        "schema diff",
        "replicate",
    }
