"""The user of this process, whose name the history and the ledger keep."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.upgrade.prepare.fill import without_spark
from airflow_provider_schemamig.core.user import user_name
from tests.support.upgrades import releases


def test_a_user_without_a_name_upgrades_and_is_told_by_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A container started with a number of its own (``docker run --user 4242``) has no entry in passwd."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)

    def lookup(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr("pwd.getpwuid", lookup)
    assert user_name() == str(os.getuid())
    first, second = releases(tmp_path, ("CREATE TABLE t (id INT);", ""), ("CREATE TABLE t (id INT, x INT);", 'evolution("t")'))
    env = Environment.open(str(tmp_path / "lake"))
    commands.upgrade(env, first, jobs=without_spark, create=True)
    commands.upgrade(env, second, jobs=without_spark)
    assert {entry.who.partition("@")[0] for entry in commands.read_history(env)} == {str(os.getuid())}
