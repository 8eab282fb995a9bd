"""``alter``, ``verify`` and the elements in ``status``: documents, exit codes, what a person sees. Spark's part is the tests' own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from airflow_provider_schemamig.cli.commands import alter as alter_command
from airflow_provider_schemamig.cli.commands import verify as verify_command
from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.upgrade.errors import DataViolation
from tests.support.bytes import tree
from tests.support.online import OnlineJobs
from tests.support.product import Product
from tests.support.rows.tables import insert
from tests.unit.cli.samples import Run, conforms, refused

KEYED = "CREATE TABLE a (id BIGINT, u INT, UNIQUE (u));"
ROW = {"id": 1, "u": 1}


@pytest.fixture(autouse=True)
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    for command in (alter_command, verify_command):
        monkeypatch.setattr(command, "spark_at", lambda where, listen: OnlineJobs())


@pytest.fixture
def lake(tmp_path: Path, run: Run) -> Path:
    """Collection ``a`` with a unique column and one row."""
    release = Product(tmp_path / "keyed").release("1.0.0", KEYED)
    done = run("upgrade", "--env", tmp_path / "lake", "--release", release, "--create", "--json")
    assert done.exit_code == 0, done.stdout
    insert(table(tmp_path / "lake"), [ROW])
    return tmp_path / "lake"


def table(lake: Path) -> Path:
    uri = commands.status(Environment.open(str(lake))).to_json()["collections"]["a"]["uri"]
    return Path(uri.removeprefix("file://"))


def test_a_dry_run_writes_nothing(lake: Path, run: Run) -> None:
    before = tree(lake)
    shown = run("alter", "--env", lake, "ALTER TABLE a ADD COLUMN n INT DEFAULT 7", "--dry-run", "--json")
    assert shown.exit_code == 3, shown.stdout
    assert [stage["kind"] for stage in shown.document["stages"]] == ["change", "commit"]
    text = run("alter", "--env", lake, "ALTER TABLE a ADD COLUMN n INT DEFAULT 7", "--dry-run").stdout
    assert "column:n ABSENT > DELETE > WRITE > REORG > PUBLIC" in " ".join(text.split())
    assert "stay at 1.0.0: one ledger append" in text
    assert "With --hold 0 (the default) the hold is over at once: there is no way back after the commit." in " ".join(text.split())
    assert "over at once" not in run("alter", "--env", lake, "ALTER TABLE a ADD COLUMN n INT", "--dry-run", "--hold", "1h").stdout
    assert tree(lake) == before


def test_the_way_back_of_an_alter_leads_to_what_was_before_it(lake: Path, run: Run) -> None:
    done = run("alter", "--env", lake, "ALTER TABLE a ADD COLUMN n INT", "--hold", "1h").stdout
    assert "The way back to 1.0.0 as it was before generation 2 is open until" in " ".join(done.split())


def test_online_a_statement(lake: Path, run: Run) -> None:
    done = run("alter", "--env", lake, "ALTER TABLE a ADD COLUMN n INT DEFAULT 7", "--json")
    assert done.exit_code == 0, done.stdout
    conforms(done.document, "outcome")
    assert [stage["kind"] for stage in done.document["stages"]] == ["change", "backfill", "commit"]
    again = refused(run, "alter", "--env", lake, "ALTER TABLE a ADD COLUMN n INT DEFAULT 7", code="duplicate_name", collection="a")
    assert "statement:1:26" in again["message"]


def test_online_what_preflight_finds_is_refused_before_anything_is_written(lake: Path, run: Run) -> None:
    insert(table(lake), [{"id": -1, "u": 2}])
    before = tree(lake)
    refused(run, "alter", "--env", lake, "ALTER TABLE a ADD CONSTRAINT pos CHECK (id > 0)", code="data_violation", collection="a")
    assert tree(lake) == before


def test_the_elements_of_a_change_that_was_walked_back(lake: Path, tmp_path: Path, run: Run) -> None:
    env, product, jobs = Environment.open(str(lake)), Product(tmp_path / "next"), OnlineJobs()
    product.release("1.0.0", KEYED)
    second = product.release("1.1.0", KEYED.replace("UNIQUE", "CONSTRAINT pos CHECK (id > 0), UNIQUE"), 'evolution("a")')
    generation = commands.preflight(env, second, jobs=jobs).generation
    assert generation is not None
    commands.promote(env, generation)
    insert(table(lake), [{"id": -2, "u": 3}])  # between preflight and the first commit
    commands.expand(env, generation)
    with pytest.raises(DataViolation):
        commands.change(env, generation, jobs=jobs)

    shown = run("status", "--env", lake, "--json")
    conforms(shown.document, "status")
    (element,) = shown.document["elements"]
    assert (element["element"], element["state"]) == ("check:pos", "absent")
    assert "violate" in element["error"]
    assert (element["phase"], element["commits"]) == ("walked back", {"metadata": 2, "batches": 0, "others": 0})
    shown_text = " ".join(run("status", "--env", lake).stdout.split())
    assert "a check:pos ABSENT walked back" in shown_text


def test_cli_online_verify(lake: Path, run: Run) -> None:
    kept = run("verify", "--env", lake, "--json")
    assert kept.exit_code == 0, kept.stdout
    conforms(kept.document, "verified")
    assert kept.document["kept"] == [{"collection": "a", "element": "unique:u", "version": 1}]
    assert "Nothing is broken." in run("verify", "--env", lake).stdout
    insert(table(lake), [ROW])
    before = tree(lake)
    broken = run("verify", "--env", lake, "--collection", "a", "--json")
    assert broken.exit_code == 1
    conforms(broken.document, "verified")
    assert [(item["condition"], item["element"], item["rows"]) for item in broken.document["findings"]] == [(6, "unique:u", 2)]
    shown = " ".join(run("verify", "--env", lake).stdout.split())
    assert "broken a unique:u: 2 row(s): rows have a key of others: UNIQUE (u) (condition 6)" in shown
    assert tree(lake) == before
    refused(run, "verify", "--env", lake, "--collection", "b", code="unknown_collection", collection="b")


def test_online_what_verify_cannot_look_at_is_said(lake: Path, run: Run) -> None:
    shutil.rmtree(table(lake))
    found = run("verify", "--env", lake, "--json")
    conforms(found.document, "verified")
    reason = "no Delta table is there, or another one than the ledger knows"
    assert found.document["unasked"] == [{"collection": "a", "element": None, "reason": reason}]
    shown = run("verify", "--env", lake)
    assert "not asked a: no Delta table is there" in " ".join(shown.stdout.split())
    assert (found.exit_code, shown.exit_code) == (1, 1) and "Nothing is broken" not in shown.stdout


def test_the_history_of_a_change(lake: Path, run: Run) -> None:
    run("alter", "--env", lake, "ALTER TABLE a ADD COLUMN n INT DEFAULT 7")
    before = tree(lake)
    shown = run("history", "--env", lake, "--collection", "a", "--json")
    conforms(shown.document, "history")
    (entry,) = shown.document["entries"]
    assert (entry["what"], entry["outcome"], entry["detail"]) == ("change column:n", "done", "1 metadata commit(s), 1 batch(es) of rows")
    text = run("history", "--env", lake).stdout
    assert "change column:n" in text
    assert text.index("contract") < text.index("cutover") < text.index("expand"), "the newest first"
    (newest,) = run("history", "--env", lake, "--limit", 1, "--json").document["entries"]
    assert newest["what"] == "contract"
    assert run("history", "--env", lake, "--collection", "nobody").stdout == "There are no entries, and no collection of the name nobody.\n"
    assert tree(lake) == before
