"""Environments that something is wrong with, and what is asked of them afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_provider_schemamig.core.environment import Environment
from tests.support.lake import Lake, append, copy_of
from tests.support.upgrades import deployed, releases, whole
from tests.unit.cli.samples import Run
from tests.unit.runbook.book import sees

#: 1.1.0 renames a column and hides another; 1.2.0 takes the name of what 1.1.0's way back keeps.
ONE = "CREATE TABLE t (id BIGINT, a STRING, gone STRING); CREATE TABLE u (id BIGINT);"
TWO = "CREATE TABLE t (id BIGINT, b STRING); CREATE TABLE u (id BIGINT);"
THREE = "CREATE TABLE t (id BIGINT, b STRING, gone STRING); CREATE TABLE u (id BIGINT);"
STEPS = 'evolution("t", rename={"a": "b"}, drop=["gone"])'
ROW = {"id": 1, "a": "x", "gone": "y"}


@dataclass(frozen=True)
class Releases:
    one: Path
    two: Path
    three: Path
    #: Another 1.2.0, which can be reached from anywhere.
    wider: Path


@dataclass(frozen=True)
class Scene:
    """A lake, the releases it may go to, and a terminal."""

    lake: Lake
    releases: Releases
    run: Run

    @property
    def env(self) -> str:
        return str(self.lake.env.location.local_path)

    def refused(self, code: str, title: str, *arguments: object, exit_code: int = 1) -> dict[str, Any]:
        """Type that; among the refusals is this code, and it leads to the entry. The error."""
        ran = self.run(*arguments, "--json")
        assert ran.exit_code == exit_code, ran.stdout + ran.stderr
        document = ran.document
        found = {item["code"]: item for item in (document["error"], *document["refusals"])}
        assert code in found, found
        sees(code, title)
        return dict(found[code])

    def upgrade(self, release: Path, *more: object) -> None:
        done = self.run("upgrade", "--env", self.env, "--release", release, *more, "--json")
        assert done.exit_code == 0, done.stdout + done.stderr

    def claim(self, release: Path) -> tuple[int, str]:
        """Generation and plan."""
        done = self.run("preflight", "--env", self.env, "--release", release, "--json")
        assert done.exit_code == 0, done.stdout + done.stderr
        return done.document["generation"], done.document["plan_digest"]

    def is_right(self, version: str) -> None:
        """At this release; no drift, nothing under way, a sound ledger. As another process sees it."""
        now = Lake(Environment.open(self.env), self.lake.first, self.lake.second)
        assert now.version == version
        whole(now)

    def is_right_but(self, version: str, *findings: str) -> None:
        """... with these findings of ``ledger verify``, which nobody has to act on at night."""
        self.is_right(version)
        found = self.run("ledger", "verify", "--env", self.env, "--json").document["findings"]
        assert [item["code"] for item in found] == list(findings)


def make_releases(folder: Path) -> Releases:
    *_, wider = releases(folder / "wider", (ONE, ""), (TWO, STEPS), (TWO + "CREATE TABLE v (id BIGINT);", ""))
    one, two, three = releases(folder, (ONE, ""), (TWO, STEPS), (THREE, 'evolution("t")'))
    return Releases(one, two, three, wider)


def make_first(folder: Path, found: Releases) -> Lake:
    """At 1.0.0, with a row."""
    lake = deployed(folder, found.one, found.two)
    append(lake.path("t"), [ROW])
    return lake


def make_second(folder: Path, first: Lake) -> Lake:
    """At 1.1.0, its way back open."""
    lake = copy_of(first, folder)
    lake.upgrade(lake.second)
    return lake
