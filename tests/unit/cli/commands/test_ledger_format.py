"""``ledger upgrade``, and what the other commands say before it was run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.cli.samples import Run, conforms
from tests.unit.ledger.format.synthetic.lakes import OLDER, older_known, unpack


def test_ledger_format_nothing_to_do(run: Run, env: Path) -> None:
    current = run("ledger", "upgrade", "--env", env, "--json")
    assert (current.exit_code, current.document) == (0, {"from": 1, "to": 1, "steps": [], "rows": 0, "notes": []})
    assert "nothing to do" in run("ledger", "upgrade", "--env", env).stdout


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Path]:
    """A folder with a lake in format 0, that never was, and its releases."""
    unpack(OLDER, tmp_path / "old", tmp_path / "made")
    with older_known():
        yield tmp_path / "old"


def test_the_way_from_an_older_format(run: Run, old: Path) -> None:
    lake, release = old / "lake", old / "product" / "1.2.0"
    planned = run("plan", "--env", lake, "--release", release, "--check-data", "--json")
    assert planned.exit_code == 3, planned.stdout
    conforms(planned.document, "plan")
    assert planned.document["notes"] == ["the ledger has format 0: `schemamig ledger upgrade` has to run before promotion"]
    timing = planned.document["timing"]
    assert timing.pop("checked_seconds") > 0
    assert timing == {"rows": 0, "rows_per_second": None, "seconds": 0.0, "statement_seconds": None}
    shown = run("plan", "--env", lake, "--release", release, "--check-data").stdout
    assert "No row would be read or written." in shown
    assert "ledger upgrade" in shown
    refused = run("upgrade", "--env", lake, "--release", release, "--json")
    assert (refused.exit_code, refused.document["error"]["code"]) == (1, "ledger_format_old")
    upgraded = run("ledger", "upgrade", "--env", lake, "--json")
    assert upgraded.exit_code == 0, upgraded.stdout
    assert (upgraded.document["from"], upgraded.document["to"], upgraded.document["rows"]) == (0, 1, 3)
    assert [(step["from"], step["to"], step["rows"]) for step in upgraded.document["steps"]] == [(0, 1, 3)]
    assert run("upgrade", "--env", lake, "--release", release, "--json").exit_code == 0
