"""The shipped DAG files: short, and cheap to parse. How cheap in seconds is a matter of ``make bench``."""

from __future__ import annotations

import importlib
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_schemamig.operators.base import SchemamigOperator
from airflow_provider_schemamig.task_groups.task_docs import TASK_DOCS
from airflow_provider_schemamig.task_groups.verbs import VERBS
from tests.support.airflow.home import DAGS, ROOT, SHIPPED

EXAMPLE = ROOT / "example" / "dags"
DAG_FILES = sorted(DAGS.glob("*.py"))
HEAVY = ("pyspark", "delta", "deltalake", "pyarrow", "fastapi", "obstore", "sqlglot")


def heavy_modules_after(statement: str) -> list[str]:
    code = f"import sys; import airflow.sdk; {statement}; print(*[name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=DAGS)
    return done.stdout.splitlines()[-1].split()


def test_there_are_dag_files() -> None:
    wanted = {"upgrade", "rollback", "maintenance", "verify", "control", "alter", "replicate"}
    assert {f"schemamig_{name}" for name in wanted} <= {path.stem for path in DAG_FILES}


@pytest.mark.parametrize("path", [*DAG_FILES, EXAMPLE / "rolling_upgrade.py"], ids=lambda path: path.stem)
def test_a_dag_file_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 60


def shipped(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The shipped DAGs, read anew: a file has one that is called as it is."""
    monkeypatch.syspath_prepend(DAGS)
    found: dict[str, Any] = {}
    for path in DAG_FILES:
        read = runpy.run_path(str(path))
        assert read["dag"].dag_id == path.stem
        found |= {dag.dag_id: dag for dag in read.values() if isinstance(dag, DAG)}
    assert sorted(found) == SHIPPED
    return found


def test_dag_files_nothing_runs_by_itself_before_a_schedule_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {name: dag.schedule for name, dag in shipped(monkeypatch).items()} == dict.fromkeys(SHIPPED, None)
    wanted = {"upgrade": "@daily", "maintenance": "15 * * * *", "verify": "@weekly", "watch_keys": "@hourly", "replicate": "@continuous"}
    for name, schedule in wanted.items():
        monkeypatch.setenv(f"AIRFLOW__SCHEMAMIG__{name.upper()}_SCHEDULE", schedule)
    found = shipped(monkeypatch)
    assert {name: found[f"schemamig_{name}"].schedule for name in wanted} == wanted
    assert all(found[f"schemamig_{name}"].schedule is None for name in ("alter", "control", "rollback"))


def test_one_environment_does_not_hold_the_runs_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for replication: a continuous schedule has one run, and it is of one pair."""
    alone = {name for name, dag in shipped(monkeypatch).items() if dag.max_active_runs == 1}
    assert alone == {"schemamig_replicate"}


def test_a_mapped_task_is_called_by_its_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = {task.task_id: task.map_index_template for dag in shipped(monkeypatch).values() for task in dag.tasks if task.is_mapped}
    named = ("upgrade.fill", "upgrade.tail", "upgrade.change", "replicate.bring")
    assert mapped == dict.fromkeys(named, "{{ task.collections | join(', ') }}")


def test_the_docs_count_and_name_every_dag() -> None:
    text = (ROOT / "docs" / "airflow.md").read_text()
    assert f" {len(SHIPPED)} DAGs" in text
    assert sorted(re.findall(r"^\| `(schemamig_\w+)` \|", text, re.MULTILINE)) == SHIPPED


def test_the_docs_have_the_fields_of_every_short_form() -> None:
    text = (ROOT / "docs" / "airflow.md").read_text()
    for name, verb in VERBS.items():
        fields = [f"**`{field}`**" for field in verb.needed] + [f"`{field}`" for field in verb.optional]
        assert f"| `schemamig_{name}` | {', '.join(fields)} |" in text


def test_the_long_form_has_every_verb_and_every_field(monkeypatch: pytest.MonkeyPatch) -> None:
    found = shipped(monkeypatch)
    dag = found["schemamig_control"]
    assert dag.params.get_param("action").schema["enum"] == [name for name in dag.task_ids if name != "action"] == list(VERBS)
    assert set(dag.params) == {"action", *(field for name in VERBS for field in found[f"schemamig_{name}"].params)}


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_is_the_same_task_in_both_forms(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = shipped(monkeypatch)
    alone, among = found[f"schemamig_{name}"].get_task(name), found["schemamig_control"].get_task(name)
    assert found[f"schemamig_{name}"].task_ids == [name]
    assert type(alone) is type(among)
    given, given_there = ({field: getattr(task, field) for field in alone.template_fields} for task in (alone, among))
    assert given == given_there
    used = set(re.findall(r"params\.(\w+)", " ".join(str(value) for value in given.values())))
    assert used == set(found[f"schemamig_{name}"].params), "each field of the form is used, and no other"


def test_parsing_imports_nothing_heavy() -> None:
    shipped = ", ".join(path.stem for path in DAG_FILES)
    assert heavy_modules_after(f"sys.path.append({str(EXAMPLE)!r}); import {shipped}, rolling_upgrade") == []
    assert heavy_modules_after("import sqlglot") == ["sqlglot"], "the test would see it"


def test_the_plugin_is_cheap_for_the_processes_that_load_it() -> None:
    assert heavy_modules_after("import airflow_provider_schemamig.plugins.schemamig") == []


def test_every_task_refuses_a_run_with_a_misspelt_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [task for dag in shipped(monkeypatch).values() for task in dag.tasks if isinstance(task, SchemamigOperator)]
    assert len(tasks) > 40
    assert all(task.only_params for task in tasks)


def test_the_rolling_upgrade_takes_the_replicas_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    found = importlib.import_module("rolling_upgrade")
    dag = found.rolling_upgrade
    before: set[str] = set()
    for name in ("lake_east", "lake_north", "lake_west"):
        assert dag.get_task(f"upgrade_{name}.fingerprint").upstream_task_ids == before
        before = {f"{name}_accepts"}
    for name in ("lake_east", "lake_north"):
        assert dag.get_task(f"{name}_accepts").upstream_task_ids == {f"{name}_is_there"}
        assert dag.get_task(f"{name}_has_all").upstream_task_ids == {"lake_west_is_there"}
        assert getattr(found, f"replicate_to_{name}").max_active_runs == 1


def test_every_task_says_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {f"{dag.dag_id}.{task.task_id}": task.doc_md or "" for dag in shipped(monkeypatch).values() for task in dag.tasks}
    assert [name for name, text in texts.items() if len(text) < 20 or ":param" in text] == []
    said = {name.rpartition(".")[2]: text for name, text in texts.items() if ".upgrade." in name}
    assert said == TASK_DOCS, "each of the group has its own, and no text is left over"
    for name in ("preflight", "fill", "promote", "expand", "change", "cutover_and_commit", "cleanup"):
        assert "**If it fails**" in said[name]
