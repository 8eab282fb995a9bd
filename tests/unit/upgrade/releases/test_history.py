"""A real project's history: 14 releases of Airflow's metadata database, one after the other and several at once (tests/history.py)."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.maintenance import compact
from airflow_provider_schemamig.core.ledger.store import LedgerWriter
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.schema.fingerprint import fingerprint
from airflow_provider_schemamig.core.schema.model import DataType
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from tests.history import releases, write_history
from tests.support.lake import Lake
from tests.support.upgrades import whole

AT_ONCE = timedelta(0)
VERSIONS = [release.version for release in releases()]
HEAD = VERSIONS[-1]


@dataclass
class History:
    """The release folders, and a lake as it stood at each release on its way through all of them."""

    folders: Mapping[str, Path]
    lakes: dict[str, Path] = field(default_factory=dict)

    def lake(self, version: str, folder: Path) -> Lake:
        """A copy of the lake as it stood at ``version``."""
        shutil.copytree(self.lakes[version], folder)
        return self.at(folder)

    def at(self, folder: Path) -> Lake:
        return Lake(Environment.open(str(folder)), self.folders[VERSIONS[0]], self.folders[HEAD])


#: Fourteen lakes are made for these tests, in one worker.
pytestmark = pytest.mark.xdist_group("history")


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    """Through all releases one after the other."""
    root = tmp_path_factory.mktemp("history")
    found = History(write_history(root / "product"))
    lake = found.at(root / "lake")
    for version, folder in found.folders.items():
        outcome = lake.upgrade(folder, hold=AT_ONCE)
        assert (str(outcome.target), outcome.pending) == (version, ())
        compact(LedgerWriter(lake.env))  # as maintenance does from time to time; and the copies are smaller
        found.lakes[version] = root / "lakes" / version
        shutil.copytree(root / "lake", found.lakes[version])
    return found


def declared(lake: Lake) -> dict[str, str]:
    return {name: item.fingerprint for name, item in lake.state.objects.items()}


def live(lake: Lake) -> dict[CollectionName, list[tuple[str, DataType, bool]]]:
    """The columns every table has, by its own log; sorted, because order is nobody's business."""
    found, state = {}, lake.state
    for name, item in state.objects.items():
        table = read_head(table_store(lake.env, state, item.shard)).declaration(name)
        found[name] = sorted((column.name, column.type, column.nullable) for column in table.fields)
    return found


def test_there_are_fourteen_releases() -> None:
    assert (len(VERSIONS), VERSIONS[0], HEAD) == (14, "2.6.2", "3.3.0")


def test_one_release_after_the_other(history: History) -> None:
    """Each declares what its own folder says."""
    for release in releases():
        lake = history.at(history.lakes[release.version])
        assert declared(lake) == {name: fingerprint(declaration) for name, declaration in release.declarations.items()}


def test_the_last_one_is_what_a_new_environment_gets(history: History, tmp_path: Path) -> None:
    lake, new = history.at(history.lakes[HEAD]), history.at(tmp_path / "fresh")
    new.upgrade(history.folders[HEAD])
    assert lake.state.release is not None and lake.state.release.is_same(new.state.release)
    assert declared(lake) == declared(new)
    assert live(lake) == live(new)
    whole(lake)


@pytest.mark.some(2)
@pytest.mark.parametrize("source", [pytest.param(name, marks=pytest.mark.soak if at % 4 else ()) for at, name in enumerate(VERSIONS[:-1])])
def test_from_every_release_to_the_last_in_one_step(history: History, tmp_path: Path, source: str) -> None:
    lake, last = history.lake(source, tmp_path / "lake"), history.at(history.lakes[HEAD])
    lake.upgrade(lake.second, hold=AT_ONCE)
    assert lake.state.release is not None and lake.state.release.is_same(last.state.release)
    assert declared(lake) == declared(last)
    assert live(lake) == live(last)
    whole(lake)


def test_from_the_first_to_the_last_and_back(history: History, tmp_path: Path) -> None:
    """Every table as it was, but for what was widened."""
    lake = history.lake(VERSIONS[0], tmp_path / "lake")
    columns = live(lake)
    lake.upgrade(lake.second)
    commands.rollback(lake.env)
    assert lake.state.release == history.at(history.lakes[VERSIONS[0]]).state.release
    assert {name for name, found in live(lake).items() if found != columns[name]} == widened(lake)
    whole(lake)


def widened(lake: Lake) -> set[CollectionName]:
    found, state = set(), lake.state
    for name in state.objects:
        entry = state.entry(name)
        if any(a.type != b.type for a, b in zip(entry.declared.fields, entry.physical.fields, strict=False)):
            found.add(name)
    return found
