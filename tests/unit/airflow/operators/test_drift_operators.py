"""Drift, adoption, approval and the ledger's backup as tasks: each does on a real environment what the command line's command does."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.upgrade.drift.errors import LossyRevert
from airflow_provider_schemamig.operators.control import ApproveOperator
from airflow_provider_schemamig.operators.drift import AcceptOperator, AdoptOperator, RevertOperator, UnmanageOperator
from airflow_provider_schemamig.operators.ledger import BackupLedgerOperator
from tests.support.airflow.final_refusals import fails_for_good
from tests.support.lake import no_spark
from tests.support.tables import foreign
from tests.support.tables.adopting import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def run(site: Site, kind: Any, **arguments: Any) -> dict[str, Any]:
    """What the task returns. A relative release folder is looked for beside the DAG file."""
    run_of_ann = SimpleNamespace(dag_id="d", run_id="r", triggering_user_name="ann")
    context: Any = {"dag": SimpleNamespace(folder=str(site.folder)), "dag_run": run_of_ann}
    done: dict[str, Any] = kind(task_id="t", environment=site.env.location.uri, **arguments).execute(context)
    return done


@pytest.fixture
def adopted(site: Site) -> Site:
    done = run(site, AdoptOperator, release="release", tables={"flights": str(site.table("flights"))}, create="True")
    assert (done["version"], [table["collection"] for table in done["tables"]]) == ("1.0.0", ["flights"])
    site.check("1.0.0")
    return site


def test_adopted_once_there_is_nothing_to_do(adopted: Site) -> None:
    again = run(adopted, AdoptOperator, release="release", tables={"flights": str(adopted.folder / "out" / "flights")})
    assert (again["version"], again["tables"]) == ("1.0.0", [])


def test_drift_is_accepted_into_the_release(adopted: Site) -> None:
    foreign.add_column(adopted.folder / "out" / "flights", "gate")
    done = run(adopted, AcceptOperator, release="release", collections="flights")
    assert (done["version"], [change["op"] for change in done["accepted"][0]["changes"]]) == ("1.1.0", ["add_column"])
    assert commands.status(adopted.env).drifted == ()
    assert run(adopted, AcceptOperator, release="release")["version"] is None


def test_drift_is_reverted_and_values_are_lost_only_by_order(adopted: Site) -> None:
    table = adopted.folder / "out" / "flights"
    foreign.add_column(table, "gate")
    foreign.write(table, [{"id": 3, "day": "c", "gate": "A1"}])
    with fails_for_good(LossyRevert):
        run(adopted, RevertOperator, collection="flights", allow_lossy="False")
    done = run(adopted, RevertOperator, collection="flights", allow_lossy="True")
    assert (done["collection"], [change["op"] for change in done["changes"]]) == ("flights", ["drop_column"])
    adopted.check("1.0.0")


def test_a_table_is_given_back(adopted: Site) -> None:
    done = run(adopted, UnmanageOperator, collection="flights")
    assert done["unmanaged"] is True
    assert run(adopted, UnmanageOperator, collection="flights")["unmanaged"] is False


def test_the_user_who_triggers_the_run_approves_the_plan(adopted: Site) -> None:
    foreign.add_column(adopted.folder / "out" / "flights", "gate")
    run(adopted, AcceptOperator, release="release")
    found = commands.preflight(adopted.env, adopted.release, jobs=no_spark)
    assert found.generation is not None
    done = run(adopted, ApproveOperator, generation=str(found.generation), plan=found.plan_digest)
    assert (done["generation"], done["approved_by"]) == (found.generation, "ann")
    assert commands.approved(adopted.env, found.generation)


def test_the_ledger_is_copied(adopted: Site) -> None:
    done = run(adopted, BackupLedgerOperator, folder=str(adopted.folder / "copy"))
    assert done["uri"] == f"file://{adopted.folder}/copy"
    assert done["files"] > 0 and (adopted.folder / "copy" / "backup.json").exists()
