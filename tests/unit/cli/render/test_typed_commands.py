"""Commands that an answer names can be typed as they stand there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

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
    assert f"`schemamig upgrade --env {tmp_path} --release DIR --create`" in refused


def test_the_approval_that_a_preflight_asks_for_can_be_typed(
    run: Run, env: Path, new_release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHEMAMIG_ENV", str(env.parent / "another"))
    (command,) = re.findall(r"`schemamig (approve [^`]*)`", run("preflight", "--env", env, "--release", new_release).stdout)
    assert run(*shlex.split(command)).exit_code == 0
