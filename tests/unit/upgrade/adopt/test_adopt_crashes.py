"""Adopting, giving back, taking over and undoing: killed at any write, done twice, or by two at once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.release.authoring.next_version import NextVersion
from airflow_provider_schemamig.core.release.check import check
from airflow_provider_schemamig.core.storage.local import LocalStore
from airflow_provider_schemamig.core.upgrade.drift.accept import accept
from airflow_provider_schemamig.core.upgrade.drift.revert import revert
from airflow_provider_schemamig.core.upgrade.drift.unmanage import unmanage
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.bytes import tree
from tests.support.lake import Crash
from tests.support.tables import foreign
from tests.support.tables.adopting import Site

#: More writes than any of these commands makes: the ledger's creation is one, each line of history another.
MANY = 40


def crashing(env: Environment, after: int) -> Environment:
    count = 0

    def hook(moment: str, what: str, key: str) -> None:
        nonlocal count
        count += 1
        if count > after:
            raise Crash(f"{moment} {what} {key}")

    return replace(env, on_write=hook)


def managed(folder: Path) -> Site:
    site = Site(folder)
    site.adopt(flights=site.table("flights"))
    return site


def adopt_first(site: Site, env: Environment) -> None:
    site.adopt(env, flights=site.folder / "out" / "flights", planes=site.folder / "out" / "planes")


def adopt_more(site: Site, env: Environment) -> None:
    site.adopt(env, planes=site.folder / "out" / "planes")


def accept_all(site: Site, env: Environment) -> None:
    accept(env, site.release)


def revert_lossy(site: Site, env: Environment) -> None:
    revert(env, "flights", allow_lossy=True)


def give_back(site: Site, env: Environment) -> None:
    unmanage(env, "flights")


def fresh(folder: Path) -> Site:
    site = Site(folder)
    site.table("flights")
    site.table("planes")
    return site


def with_planes(folder: Path) -> Site:
    site = managed(folder)
    site.table("planes")
    return site


def drifted(folder: Path) -> Site:
    site = managed(folder)
    foreign.add_column(site.folder / "out" / "flights", "gate")
    foreign.write(site.folder / "out" / "flights", [{"id": 3, "gate": "b"}])
    return site


COMMANDS: dict[str, tuple[Callable[[Path], Site], Callable[[Site, Environment], None], str, str]] = {
    "the first adopt": (fresh, adopt_first, "1.0.0", "1.0.0"),
    "adopt more": (with_planes, adopt_more, "1.1.0", "1.1.0"),
    "accept": (drifted, accept_all, "1.0.0", "1.1.0"),
    "revert": (drifted, revert_lossy, "1.0.0", "1.0.0"),
    "unmanage": (managed, give_back, "1.0.0", "1.0.0"),
}


#: What the others write, in the order in which they write it; they are cut in ``make soak``.
_TYPICAL = ("the first adopt", "revert")


@pytest.mark.some(8, of="histories at each moment")
@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in _TYPICAL else pytest.mark.soak) for name in COMMANDS])
def test_killed_at_any_write_of_the_environment(tmp_path: Path, name: str) -> None:
    make, command, version, head = COMMANDS[name]
    pristine = make(tmp_path / "pristine").folder
    for moment in range(MANY):
        site = moved(pristine, tmp_path)
        try:
            command(site, crashing(site.env, moment))
            finished = True
        except Crash:
            finished = False
        ledger = LedgerReader(replace(site.env))
        assert not ledger.exists() or ledger.state().release is not None, "an upgrade would take it for a new environment"
        command(site, site.env)
        assert check(site.release) == (), moment
        site.check(version)
        again = tree(site.folder)
        command(site, site.env)
        assert tree(site.folder) == again, moment
        assert head in (site.release / "release.toml").read_text()
        if finished:
            return
    raise AssertionError("more writes than were looked at")


def moved(pristine: Path, folder: Path) -> Site:
    """A copy that is at the pristine one's place, because the ledger has absolute URIs."""
    kept = folder / "kept"
    if not kept.exists():
        shutil.copytree(pristine, kept)
    shutil.rmtree(pristine)
    shutil.copytree(kept, pristine)
    return Site(pristine)


@pytest.mark.parametrize("name, files", [("the first adopt", 4), ("adopt more", 5), ("accept", 5)])
def test_killed_at_any_file_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, files: int) -> None:
    make, command, version, _ = COMMANDS[name]
    pristine = make(tmp_path / "pristine").folder
    put = LocalStore.put
    for moment in range(files):
        site = moved(pristine, tmp_path)
        left = [moment]

        def dying(self: LocalStore, key: str, data: bytes, left: list[int] = left) -> None:
            if "release" in self.location.uri.rpartition("/")[2]:
                if not left[0]:
                    raise Crash(key)
                left[0] -= 1
            put(self, key, data)

        monkeypatch.setattr(LocalStore, "put", dying)
        with pytest.raises(Crash):
            command(site, site.env)
        monkeypatch.setattr(LocalStore, "put", put)
        exists = LedgerReader(site.env).exists()
        assert not exists or str(site.state.release.version if site.state.release else None) == "1.0.0"
        command(site, site.env)
        assert check(site.release) == ()
        site.check(version)


def test_adopt_crashes_what_an_author_left_behind_is_not_taken_for_ours(tmp_path: Path) -> None:
    site = with_planes(tmp_path)
    (site.release / "migrations").mkdir()
    (site.release / "migrations" / "v1_1_0.py").write_text('"""Mine.\n\nWhy: mine."""\n\nSTEPS = []\n')
    before = tree(site.folder)
    with pytest.raises(SchemamigError) as caught:
        adopt_more(site, site.env)
    assert caught.value.code == "version_above_head"
    assert tree(site.folder) == before


def racing(env: Environment, twin: Callable[[], Any]) -> Environment:
    """``twin`` runs just before the first append to the ledger that is there already."""
    done: list[bool] = []

    def hook(moment: str, what: str, key: str) -> None:
        if (moment, what) == ("before", "ledger") and not done:
            done.append(True)
            twin()

    return replace(env, on_write=hook)


@pytest.mark.parametrize("name", ["adopt more", "accept", "revert", "unmanage"])
def test_a_twin_is_faster(tmp_path: Path, name: str) -> None:
    make, command, version, _ = COMMANDS[name]
    site = make(tmp_path)
    command(site, racing(site.env, lambda: command(site, site.env)))
    site.check(version)


def test_another_adoption_is_faster(tmp_path: Path) -> None:
    site = with_planes(tmp_path)
    hotels = site.table("hotels")
    release = site.folder / "other"
    shutil.copytree(site.release, release)

    def other() -> None:
        from airflow_provider_schemamig.core.upgrade.adopt.adopt import adopt

        adopt(site.env, release, [("hotels", str(hotels))])

    with pytest.raises(SchemamigError) as caught:
        adopt_more(site, racing(site.env, other))
    assert (caught.value.code, caught.value.retryable) == ("overtaken", True)
    site.check("1.1.0")
    assert sorted(site.state.objects) == ["flights", "hotels"]


def test_a_leader_of_before_is_fenced(tmp_path: Path) -> None:
    """Whoever works under the epoch of before the adoption, or the giving back, may not go on."""
    site = with_planes(tmp_path)
    epochs = [site.state.leader.epoch if site.state.leader else 0]
    adopt_more(site, site.env)
    epochs.append(site.state.leader.epoch if site.state.leader else 0)
    unmanage(site.env, "planes")
    epochs.append(site.state.leader.epoch if site.state.leader else 0)
    assert epochs == [1, 2, 3]


def test_the_release_is_the_head_only_once_all_of_it_is_written(tmp_path: Path) -> None:
    site = fresh(tmp_path)
    adopt_first(site, site.env)
    from airflow_provider_schemamig.core.release.authoring.next_version import known, next_version

    made: NextVersion = next_version(known(site.release), (site.release / "schema.sql").read_text(), "Next", "to see it")
    assert list(made.files)[-1] == "release.toml"
