"""``ledger upgrade``, and what the other commands say before it was run."""

from __future__ import annotations

import tarfile
from pathlib import Path

from tests.unit.cli.samples import Run, conforms
from tests.unit.ledger.format.test_fixtures import FIXTURES


def test_the_way_from_an_older_format(run: Run, env: Path, tmp_path: Path) -> None:
    current = run("ledger", "upgrade", "--env", env, "--json")
    assert (current.exit_code, current.document) == (0, {"from": 3, "to": 3, "steps": [], "rows": 0, "notes": []})
    assert "nothing to do" in run("ledger", "upgrade", "--env", env).stdout
    with tarfile.open(FIXTURES["v1_first"]) as archive:
        archive.extractall(tmp_path / "old", filter="data")
    old, release = tmp_path / "old" / "lake", tmp_path / "old" / "product" / "1.2.0"
    planned = run("plan", "--env", old, "--release", release, "--check-data", "--json")
    assert planned.exit_code == 3, planned.stdout
    conforms(planned.document, "plan")
    assert planned.document["notes"] == ["the ledger has format 1: `schemamig ledger upgrade` has to run before promotion"]
    timing = planned.document["timing"]
    assert timing.pop("checked_seconds") > 0
    assert timing == {"rows": 0, "rows_per_second": None, "seconds": 0.0}
    shown = run("plan", "--env", old, "--release", release, "--check-data").stdout
    assert "No row would be read or written." in shown
    assert "ledger upgrade" in shown
    refused = run("upgrade", "--env", old, "--release", release, "--json")
    assert (refused.exit_code, refused.document["error"]["code"]) == (1, "ledger_format_old")
    upgraded = run("ledger", "upgrade", "--env", old, "--json")
    assert upgraded.exit_code == 0, upgraded.stdout
    assert (upgraded.document["from"], upgraded.document["to"], upgraded.document["rows"]) == (1, 3, 5)
    assert [(step["from"], step["to"], step["rows"]) for step in upgraded.document["steps"]] == [(1, 2, 5), (2, 3, 0)]
    assert run("upgrade", "--env", old, "--release", release, "--json").exit_code == 0
