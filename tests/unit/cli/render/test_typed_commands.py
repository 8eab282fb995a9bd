"""Commands that an answer names can be typed as they stand there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.support.product import Product
from tests.support.tables import foreign
from tests.unit.cli.samples import Run


@pytest.mark.parametrize("says", ["by its option", "by SCHEMAMIG_ENV"])
def test_commands_in_an_answer_have_the_environment_unless_a_variable_says_it(
    says: str, run: Run, env: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if says == "by SCHEMAMIG_ENV":
        monkeypatch.setenv("SCHEMAMIG_ENV", str(env))
    run("pause", "--env", env, "--collection", "flights")
    (command,) = re.findall(r"`schemamig ([^`]*)`", " ".join(run("resume", "--env", env).stdout.split()))
    given = "" if says == "by SCHEMAMIG_ENV" else f" --env {env}"
    assert command == f"resume{given} --collection flights"
    assert run(*shlex.split(command)).exit_code == 0


def test_commands_in_a_refusal_have_the_environment_and_a_place_for_the_release(run: Run, env: Path, tmp_path: Path) -> None:
    refused = " ".join(run("status", "--env", tmp_path).stderr.split())
    assert f"`schemamig upgrade --release DIR --env {tmp_path.as_uri()} --create`" in refused


def test_the_approval_that_a_preflight_asks_for_can_be_typed(
    run: Run, env: Path, new_release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEMAMIG_ENV", str(env.parent / "another"))
    (command,) = re.findall(r"`schemamig (approve [^`]*)`", run("preflight", "--env", env, "--release", new_release).stdout)
    assert run(*shlex.split(command)).exit_code == 0


def test_the_commands_under_drift_are_quoted_and_whole_and_none_stands_under_what_cannot_be_done(
    run: Run, tmp_path: Path, product: Product, old_release: Path, new_release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    env = tmp_path / "my env"
    for release in (old_release, new_release):
        assert run("upgrade", "--env", env, "--release", release, "--create").exit_code == 0
    (planes,) = (env / "planes").iterdir()
    foreign.add_column(planes, "seats")
    shown = run("status", "--env", env).stdout
    lines = shown[shown.index("drift  planes") :].splitlines()
    commands = [line.strip() for line in lines if "schemamig revert --env" in line]
    assert commands == [f"`schemamig revert --env '{env.as_uri().replace('%20', ' ')}' --collection planes`"]
    assert run(*shlex.split(commands[0].strip("`"))[1:]).exit_code == 0
    at = next(number for number, line in enumerate(lines) if line.startswith("  accept  cannot: generation 2"))
    assert [line[:4] for line in lines[at + 1 : at + 3]] == ["  ta", "  re"], "indented as the first line, and no command follows"
    assert "schemamig accept" not in shown and "schemamig unmanage" not in shown


def test_of_two_environments_the_one_that_is_missing_is_named(run: Run, env: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEMAMIG_ENV", str(env))
    refused = " ".join(run("schema", "diff", env, tmp_path / "none").stderr.split())
    assert f"--env {(tmp_path / 'none').as_uri()} --create`" in refused
