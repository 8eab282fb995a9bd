"""A credential in the wrong place of a command line: it is told in no usage error, and neither the ledger nor `status` keeps it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.samples import Run, refused

URI = "s3://AKIAKEY:hunter2secret@bucket/table"
KEY = "AccountName=a;AccountKey=hunter2secret"


@pytest.mark.parametrize("text", [URI, "s3://AKIAKEY:hunter2 'secret@bucket/table", KEY])
@pytest.mark.parametrize(
    "arguments",
    [
        ["TEXT"],
        ["status", "TEXT"],
        ["status", "--enviroment=TEXT"],
        ["upgrade", "--env", "x", "--release", "x", "--hold", "TEXT"],
        ["upgrade", "--env", "x", "--release", "x", "--hold=TEXT"],
        ["throttle", "--env", "x", "--window", "TEXT"],
        ["cancel", "--env", "x", "--generation", "TEXT"],
        ["lint", "--release", "x", "--format", "TEXT"],
        ["check", "--release", "TEXT"],
        ["adopt", "--env", "x", "--release", "x", "--table", "TEXT"],
        ["ledger", "rebuild", "--env", "x", "--release", "x", "--table", "TEXT"],
        ["ledger", "TEXT"],
        ["status", "--env", "TEXT"],
        ["ledger", "backup", "--env", "x", "TEXT"],
    ],
)
def test_secrets_what_was_typed_is_told_without_credentials(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for options in ([], ["--json"]):
        ran = run(*[argument.replace("TEXT", text) for argument in arguments], *options)
        assert ran.exit_code in (1, 2)
        shown = "".join((ran.stdout + ran.stderr).replace("│", "").split())
        assert "hunter2" not in shown
        assert "secret@" not in shown
    assert not list(tmp_path.iterdir()), "and no folder of that name"


def test_a_usage_error_moves_no_cursor(run: Run) -> None:
    ran = run("status", "--enviro\x1b[2Jment")
    assert ran.exit_code == 2
    assert "\x1b" not in ran.stderr


def test_the_ledger_keeps_no_credential_that_a_reason_holds(run: Run, env: Path) -> None:
    for command in ("pause", "postpone"):
        assert run(command, "--env", env, "--reason", f"waits for {URI} and {KEY}").exit_code == 0
        shown = [run(*arguments, "--env", env) for arguments in (["status"], ["status", "--json"], ["ledger", "dump"], ["history"])]
        told = "".join(ran.stdout + ran.stderr for ran in shown)
        assert "hunter2" not in told
        assert "waits for s3://***@bucket/table and AccountName=a;AccountKey=***" in told


def test_names_of_holders_and_claims_hold_none(run: Run, env: Path, new_release: Path) -> None:
    pin = ["pin", "--env", env, "--collection", "flights", "--hours", "1000", "--holder"]
    upgrade = ["upgrade", "--env", env, "--release", new_release, "--claim-id"]
    for arguments in (pin, upgrade, ["rollback", "--env", env, "--claim-id"]):
        error = refused(run, *arguments, URI, code="invalid_name")
        assert "hunter2" not in error["message"]
    assert "hunter2" not in run("ledger", "dump", "--env", env).stdout
