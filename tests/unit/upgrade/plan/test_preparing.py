"""What others see of an upgrade whose rows are checked, before it has claimed a generation."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pendulum
import pytest
from rich.console import Console

from airflow_provider_schemamig.cli.render.status import status_view
from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.jsonable import canonical, to_json
from airflow_provider_schemamig.core.ledger.objects.preparing import FOLDER, Preparing, preparing
from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.spark.runners import Job
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.product import Product
from tests.support.rows.fake_jobs import FakeJobs

OLD, NEW = "CREATE TABLE flights (id BIGINT, hour INT);", "CREATE TABLE flights (id BIGINT, hour INT NOT NULL);"
VIOLATION = {"collection": "flights", "rule": "hour IS NOT NULL", "count": 1, "sample": [{"id": "1"}]}


@dataclass
class SlowJobs(FakeJobs):
    """Spark is half way, and goes on when somebody has seen it."""

    env: Environment | None = None
    seen: list[dict[str, Any]] = field(default_factory=list)
    is_started: bool = False

    def start(self, options: Mapping[str, str]) -> None:
        self.is_started = True

    def how_far(self) -> tuple[int, int]:
        return 12, 40

    def run(self, job: Job, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self.env is not None and job == "preflight"
        deadline = time.monotonic() + 60
        while not self.seen and time.monotonic() < deadline:
            time.sleep(0.1)
            self.seen += commands.status(self.env).document["preparing"]
        return super().run(job, request)


@pytest.fixture
def product(tmp_path: Path) -> Product:
    return Product(tmp_path / "product")


@pytest.fixture
def env(tmp_path: Path, product: Product) -> Environment:
    found = Environment.open(str(tmp_path / "lake"))
    commands.upgrade(found, product.release("1.0.0", OLD), create=True, jobs=FakeJobs())
    return found


def test_a_preflight_shows_in_status_before_its_claim(env: Environment, product: Product) -> None:
    jobs = SlowJobs(env=env)
    assert commands.preflight(env, product.release("1.1.0", NEW, 'evolution("flights")'), jobs=jobs).generation == 2
    (shown,) = jobs.seen
    assert (shown["from"], shown["to"], shown["stage"], shown["done"], shown["total"]) == ("1.0.0", "1.1.0", "check rows", 12, 40)
    assert "@" in shown["who"]
    assert commands.status(env).document["preparing"] == []
    assert env.store().names(FOLDER) == []


def test_a_preflight_that_is_refused_leaves_nothing(env: Environment, product: Product) -> None:
    jobs = SlowJobs(env=env, violations=(VIOLATION,))
    with pytest.raises(SchemamigError, match="hour IS NOT NULL"):
        commands.preflight(env, product.release("1.1.0", NEW, 'evolution("flights")'), jobs=jobs)
    assert len(jobs.seen) == 1
    assert env.store().names(FOLDER) == []


def test_a_person_reads_who_checks_what() -> None:
    item = {"from": "1.0.0", "to": "1.1.0", "who": "ann@box", "since": "2026-11-24T06:00:00+00:00", "stage": "check rows"}
    document: dict[str, Any] = {
        "version": "1.0.0",
        "leader": None,
        "collections": {},
        "retired": [],
        "elements": [],
        "progress": [],
        "controls": [],
    }
    preparing_now = [{**item, "done": 12, "total": 40, "note": "30 s left"}]
    console = Console(record=True, width=200)
    console.print(status_view("lake", {**document, "pins": [], "holds": [], "deployments": [], "preparing": preparing_now}, cluster=False))
    assert "prepares 1.0.0 -> 1.1.0 since" in console.export_text(clear=False)
    assert "ann@box: check rows  12/40  30 s left; no claim yet" in console.export_text()


def test_one_that_died_counts_no_more(env: Environment) -> None:
    now = pendulum.now("UTC")
    for name, told in (("dead", now.subtract(seconds=90)), ("alive", now)):
        item = Preparing("ann@box", Version.parse("1.0.0"), Version.parse("1.1.0"), told, told)
        env.store().put(f"{FOLDER}/{name}.json", canonical(to_json(item)).encode())
    env.store().put(f"{FOLDER}/other.json", b"{}")
    assert [item.told for item in preparing(env, now)] == [now]
