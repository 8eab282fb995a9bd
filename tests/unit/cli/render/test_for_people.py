"""What a person reads: each thing once, with what to do next."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from airflow_provider_schemamig.cli.main import app
from airflow_provider_schemamig.cli.render.lint import show_findings
from airflow_provider_schemamig.cli.render.status import DEPLOYMENTS_SHOWN, _elements
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.lint.hit import Hit
from airflow_provider_schemamig.core.release.lint.model import LintFinding, Rule, Severity
from airflow_provider_schemamig.core.upgrade.documents.history import BEGUN
from airflow_provider_schemamig.core.upgrade.errors import HoldOpen
from airflow_provider_schemamig.exceptions import Refusal
from tests.support.product import Product
from tests.unit.cli.samples import Run

PLAIN = "CREATE TABLE flights (id BIGINT, hour INT); CREATE TABLE planes (tailnum STRING);"
LESS = "CREATE TABLE flights (id BIGINT, gate STRING); CREATE TABLE planes (tailnum STRING);"


@pytest.fixture
def product(tmp_path: Path) -> Product:
    return Product(tmp_path / "product")


@pytest.fixture
def lake(tmp_path: Path, run: Run, product: Product) -> Path:
    release = product.release("1.0.0", PLAIN)
    assert run("upgrade", "--env", tmp_path / "lake", "--release", release, "--create").exit_code == 0
    return tmp_path / "lake"


@pytest.fixture
def second(lake: Path, product: Product) -> Path:
    return product.release("1.1.0", LESS, '    evolution("flights", drop=["hour"]),\n')


def test_history_has_every_task_with_who_and_from_where(run: Run, lake: Path) -> None:
    entries = run("history", "--env", lake, "--json").document["entries"]
    assert [entry["what"] for entry in reversed(entries)] == ["preflight", "promote", "expand", "change", "cutover", "cleanup"]
    assert {entry["who"].partition("@")[2] for entry in entries} == {socket.gethostname()}


def test_history_shows_a_rollback_once(run: Run, lake: Path, second: Path) -> None:
    assert run("upgrade", "--env", lake, "--release", second).exit_code == 0
    assert run("rollback", "--env", lake).exit_code == 0
    whats = [entry["outcome"] for entry in run("history", "--env", lake, "--json").document["entries"] if entry["what"] == "rollback"]
    assert sorted(whats) == ["begun", "done"]
    shown = run("history", "--env", lake).stdout
    assert (shown.count("rollback"), shown.count("begun")) == (1, 0)


def test_history_shows_a_rollback_that_did_not_end(run: Run, lake: Path) -> None:
    import pendulum

    begun = HistoryEntry.ended("rollback", pendulum.now("UTC"), generation=9, outcome=BEGUN)
    assert append_history(Environment.open(str(lake)), begun) is None
    assert "begun" in run("history", "--env", lake).stdout


def test_history_says_interrupted(run: Run, lake: Path, second: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("airflow_provider_schemamig.core.upgrade.tasks.leader.run_stages", interrupted)
    assert run("upgrade", "--env", lake, "--release", second).exit_code == 130
    newest = run("history", "--env", lake, "--json").document["entries"][0]
    assert (newest["what"], newest["outcome"], newest["detail"]) == ("expand", "interrupted", "Ctrl-C")


def test_history_says_why_a_task_failed_in_one_line(run: Run, lake: Path, second: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise AnotherReleaseNeeded(collection="flights")

    monkeypatch.setattr("airflow_provider_schemamig.core.upgrade.tasks.leader.run_stages", refused)
    assert run("upgrade", "--env", lake, "--release", second).exit_code == 1
    newest = run("history", "--env", lake, "--json").document["entries"][0]
    assert (newest["what"], newest["outcome"]) == ("expand", "failed")
    assert newest["detail"] == "[another_release_needed] flights: two lines of a reason."


class AnotherReleaseNeeded(Refusal):
    code = "another_release_needed"
    has_lines = True
    message = "two lines\nof a reason."
    next_action = "Make another release."
    collection: str


def test_a_plan_counts_what_is_for_good_and_whom_it_breaks(run: Run, lake: Path, second: Path) -> None:
    plan = ("plan", "--env", lake, "--release", second)
    last = run(*plan).stdout.splitlines()[-1]
    assert last == "2 effect(s) for good, readers or writers of 1 collection(s) will notice: --explain says what."
    assert last not in run(*plan, "--explain").stdout


def test_a_rule_is_said_once_with_its_places_under_it() -> None:
    rule = Rule("SM202", "name", Severity.WARNING, "what it finds", lambda subject: iter(()))
    places = enumerate(map(CollectionName, ("a", "b")), start=1)
    findings = [LintFinding(rule, Hit(f"m{number}.py", number, name, "the same")) for number, name in places]
    console = Console(record=True, width=100, file=open("/dev/null", "w", encoding="utf-8"))  # noqa: SIM115
    show_findings(console, findings)
    assert console.export_text() == "SM202 name (warning)\n  m1.py:1  a\n  m2.py:2  b\n    the same\n"


def test_what_elements_wait_for_is_said_once() -> None:
    element = {"collection": "a", "element": "column:n", "state": "reorg", "phase": "backfill", "waits": "paused by ann", "progress": None}
    element |= {"commits": None, "since": "2026-11-24T04:00:00Z", "error": None}
    console = Console(record=True, width=160, file=open("/dev/null", "w", encoding="utf-8"))  # noqa: SIM115
    console.print(_elements([element, {**element, "element": "column:m"}]))
    shown = console.export_text()
    assert (shown.count("paused by ann"), shown.count("backfill, waits")) == (1, 2)


def test_alter_says_that_the_collection_is_ahead_of_its_release(run: Run, lake: Path) -> None:
    done = run("alter", "--env", lake, "ALTER TABLE planes ADD COLUMN seats INT", "--json")
    text = "planes is ahead of release 1.0.0: the next release has to contain what was changed outside of one"
    assert text in done.document["notes"]
    assert "ahead of its release: add seats INT" in run("status", "--env", lake).stdout
    assert {name for name, item in run("status", "--env", lake, "--json").document["collections"].items() if item["ahead"]} == {"planes"}


def test_a_question_of_several_lines_is_asked_whole(run: Run, product: Product) -> None:
    product.release("1.0.0", PLAIN)
    question = "    # TODO schemamig: is hour meant to go\n    #   for good?\n"
    release = product.release("1.1.0", LESS, f'{question}    evolution("flights", drop=["hour"]),\n')
    shown = run("check", "--release", release).stderr
    assert "is hour meant to go for good? next: " in shown.replace("\n  ", " ")
    assert "nothing was written" not in shown


def test_no_flag_has_a_type() -> None:
    for command in (["status"], ["ledger", "edit"], ["schema", "status"], ["plan"], []):
        assert "<bool>" not in CliRunner().invoke(app, [*command, "--help"]).output


def test_end_hold_without_a_newer_release_says_that_it_ended_nothing(run: Run, lake: Path, second: Path) -> None:
    assert run("upgrade", "--env", lake, "--release", second).exit_code == 0
    for verb in ("plan", "upgrade"):
        told = " ".join(run(verb, "--env", lake, "--release", second, "--end-hold").stdout.split())
        assert f"no hold is ended: --end-hold does so only with a newer release; `schemamig contract --env {lake} --now` ends them" in told
        assert "no hold" not in run(verb, "--env", lake, "--release", second).stdout


def test_status_and_history_count_what_is_older_than_what_they_show(run: Run, lake: Path, second: Path) -> None:
    """Nobody is to take the newest for all."""
    assert "older:" not in run("history", "--env", lake).stdout
    assert "older deployment" not in run("status", "--env", lake).stdout
    for _ in range(DEPLOYMENTS_SHOWN):
        assert run("upgrade", "--env", lake, "--release", second).exit_code == 0
        assert run("rollback", "--env", lake).exit_code == 0
    assert "1 older deployment(s): --json has them all." in run("status", "--env", lake).stdout
    newest = run("history", "--env", lake, "--limit", 1).stdout
    older = int(re.findall(r"(\d+) older: --limit", newest)[0])
    assert "older:" not in run("history", "--env", lake, "--limit", older + 1).stdout


def test_a_report_has_the_way_back_in_a_paragraph_of_its_own(run: Run, lake: Path, second: Path) -> None:
    assert run("upgrade", "--env", lake, "--release", second).exit_code == 0
    assert "\n\nThe way back to 1.0.0 is open until" in run("report", "--env", lake, "--generation", 2).stdout


def test_help_begins_with_what_one_does_first_and_ends_with_the_groups_of_commands() -> None:
    headings = re.findall(r"╭─ (.*?) ─+╮", CliRunner().invoke(app, ["--help"]).output)
    assert (headings[:2], headings[-1]) == (["Options", "Write a release"], "Groups of commands")


def test_an_open_hold_is_no_conflict_that_a_retry_gets_past(run: Run, lake: Path, second: Path) -> None:
    assert not HoldOpen.retryable
    assert run("upgrade", "--env", lake, "--release", second).exit_code == 0
    refused = run("unmanage", "--env", lake, "--collection", "planes")
    assert (refused.exit_code, "--end-hold" in refused.stderr) == (1, True)
