"""A real history, 14 releases of Airflow's metadata database, along every path."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_schemamig.core.testing.results import PathVerdict
from airflow_provider_schemamig.core.testing.run_all import run_all
from tests.history import write_history
from tests.unit.testing.samples import rehearsed, with_fixtures


@pytest.mark.soak
def test_every_path_of_a_real_history(tmp_path: Path) -> None:
    folder = with_fixtures(list(write_history(tmp_path / "product").values())[-1])
    found = rehearsed(folder, tmp_path / "work", released=",".join(map(str, load_versions(folder))))
    results = run_all(found, found.paths)
    assert len(results) == 1 + 13 + 13 + 13 * 14 // 2
    assert {result.verdict for result in results} == {PathVerdict.PASSED}, [result for result in results if result.findings]
    assert max(result.rows for result in results) > 300


def load_versions(folder: Path) -> tuple[object, ...]:
    from airflow_provider_schemamig.core.release.check import load_checked

    return load_checked(folder).versions
