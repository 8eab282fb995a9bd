"""What the page shows of a lake in each of its states: the documents, and the views that are made of them."""

from __future__ import annotations

import json
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pendulum
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.html.render import render, report_html
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history
from airflow_provider_schemamig.core.ledger.rows import Progress
from airflow_provider_schemamig.core.ledger.store import LedgerWriter, Put
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.web import verbs
from airflow_provider_schemamig.web.documents import DOCUMENTS
from airflow_provider_schemamig.web.places import Place
from airflow_provider_schemamig.web.reading import Look
from tests.support.lake import Lake, append, make_lake
from tests.support.page.lakes import copying, drifted, fresh, gap, hold, hold_drifted, paused, sealed
from tests.support.tables import foreign
from tests.support.upgrades import claimed, expanded, heartbeat, promoted, refused, two_releases

PLACE = Place("lake", "lake", "file:///lake", "lake", "file:///lake")
ALWAYS = ["pause", "resume"]
IN_WORK = [*ALWAYS, "throttle", "postpone", "force", "cancel"]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    found = make_lake(tmp_path)
    found.upgrade(found.first)
    return found


def read(lake: Lake, name: str, **arguments: Any) -> Any:
    """A document as it arrives: through JSON."""
    return json.loads(json.dumps(DOCUMENTS[name].make(lake.env, **arguments)))


def drawn(template: str, document: Any, **more: Any) -> str:
    look = Look(json.dumps(document), "2026-11-25T03:00:00+00:00")
    values = {"root": "./", "title": "t", "view": "v", "etag": "e", "place": PLACE, "look": look, "lately": ()}
    return render(template, **values, document=document, **more)


def deployment_view(document: Any) -> str:
    return drawn("deployment.html", document, waiting=None, run=None, drifted=0)


def test_a_fresh_lake(lake: Lake) -> None:
    overview = read(lake, "overview")
    assert (overview["version"], overview["collections"], overview["drifted"], overview["open"]) == ("1.0.0", 5, 0, None)
    document = read(lake, "deployment")
    assert (document["deployment"]["state"], document["can"], document["hold"]) == ("committed", ALWAYS, None)
    assert {table["kind"] for table in document["tables"]} == {"create"} and document["deployment"]["from"] is None
    assert "nothing → 1.0.0" in deployment_view(document)


def test_an_upgrade_that_waits_for_its_gate(lake: Lake) -> None:
    claimed(lake, lake.second)
    document = read(lake, "deployment")
    assert document["deployment"]["state"] == "claimed" and document["can"] == ["approve", *IN_WORK]
    assert read(lake, "overview")["open"]["to"] == "1.1.0"
    by_name = {table["collection"]: table for table in document["tables"]}
    renamed = next(line for line in by_name["flights"]["columns"] if (line["before"] or {}).get("name") == "dep_delay")
    assert (renamed["after"]["name"], renamed["after"]["sql"], renamed["change"]) == ("departure_delay", "BIGINT", "changed")
    assert {line["change"] for line in by_name["legacy"]["columns"]} == {"dropped"}
    view = deployment_view(document)
    for text in ("Approve", "Before promotion", "Expand", "For good", "departure_delay", "dep_delay", "Way back"):
        assert text in view


def test_a_promoted_upgrade_may_be_rolled_back_and_no_more_approved(lake: Lake) -> None:
    promoted(lake, lake.second)
    assert read(lake, "deployment")["can"] == [*IN_WORK, "rollback"]
    preview = read(lake, "rollback_preview")
    assert (preview["from"], preview["to"]) == ("1.1.0", "1.0.0") and any("stats" in line for line in preview["lines"])


def test_a_sealed_table_is_told_until_it_is_opened(lake: Lake) -> None:
    expanded(lake, lake.second)
    commands.cutover(lake.env, read_generation(lake))
    assert read(lake, "overview")["sealed"] >= 0
    document = read(lake, "deployment")
    assert document["deployment"]["state"] == "committed" and document["hold"]["state"] == "open"


def read_generation(lake: Lake) -> Any:
    return max(lake.state.deployments)


def test_a_hold_has_a_way_back_and_its_preview(lake: Lake) -> None:
    lake.upgrade(lake.second)
    document = read(lake, "deployment")
    assert document["can"] == [*ALWAYS, "rollback", "end_hold"] and document["hold"]["until"]
    assert [hold["from"] for hold in read(lake, "overview")["holds"]] == ["1.0.0"]
    view = deployment_view(document)
    assert 'data-until="' in view and "Roll back" in view and "End hold" in view
    preview = read(lake, "rollback_preview")
    assert preview["refusals"] == [] and preview["lines"][0].startswith("1.1.0 goes back to 1.0.0")
    append(lake.path("stats"), [{"origin": "JFK", "dest": "LAX", "flights": "1"}])
    lossy = read(lake, "rollback_preview")
    assert len(lossy["lines"]) >= len(preview["lines"])
    commands.rollback(lake.env, allow_lossy=True)
    after = read(lake, "deployment")
    assert (after["deployment"]["state"], after["can"]) == ("rolled_back", ALWAYS)


def test_an_older_deployment_can_be_read_and_does_nothing(lake: Lake) -> None:
    lake.upgrade(lake.second)
    document = read(lake, "deployment", generation=1)
    assert (document["deployment"]["to"], document["can"], document["generations"]) == ("1.0.0", ALWAYS, [2, 1])


def test_a_pause_says_who_and_why_everywhere(lake: Lake) -> None:
    claimed(lake, lake.second)
    commands.pause(lake.env, "flights", by="ann", reason="month end")
    for view in (deployment_view(read(lake, "deployment")), drawn("environments.html", None, rows=[row(lake)], counts=[])):
        assert "ann" in view and "month end" in view and "paused" in view


def test_the_command_that_promotes_an_approved_claim_is_quoted(lake: Lake) -> None:
    generation = claimed(lake, lake.second)
    commands.approve(lake.env, generation, lake.state.deployments[generation].plan_digest, "ann")
    view = deployment_view({**read(lake, "deployment"), "environment": "file:///my lake"})
    assert f"schemamig promote --env 'file:///my lake' --generation {generation}<" in unescape(view)


def row(lake: Lake) -> Any:
    return PLACE, Look(json.dumps(read(lake, "overview")), "2026-11-25T03:00:00+00:00"), None, ()


def test_drift_has_its_commit_its_author_and_the_ways_on(lake: Lake) -> None:
    from deltalake import DeltaTable
    from deltalake.schema import Field, PrimitiveType

    table = DeltaTable(str(lake.path("planes")))
    table.alter.add_columns([Field("extra", PrimitiveType("string"))])
    assert read(lake, "overview")["drifted"] == 1
    (found,) = read(lake, "drift")["tables"]
    assert found["collection"] == "planes" and found["since"]["table_version"] == table.version() and found["since"]["by"]
    assert {way["way"] for way in found["ways_on"]} == {"accept", "revert", "unmanage"}
    view = drawn("drift.html", read(lake, "drift"))
    assert 'data-verb="revert"' in view and 'data-verb="unmanage"' in view and "extra" in view
    assert ["drift", "bad"] in next(item for item in read(lake, "tables")["tables"] if item["collection"] == "planes")["remarks"]


def test_drift_under_an_open_hold_offers_revert_alone_and_says_why(tmp_path: Path) -> None:
    lake = hold_drifted(tmp_path)
    ways = {way["way"]: way for way in read(lake, "drift")["tables"][0]["ways_on"]}
    assert ways["revert"]["why_not"] == []
    for closed in ("accept", "unmanage"):
        assert "generation 2 can be rolled back until" in ways[closed]["why_not"][0]
    view = drawn("drift.html", read(lake, "drift"))
    assert 'data-verb="revert"' in view and 'data-verb="unmanage"' not in view and "schemamig accept" not in view
    with refused("drift", "planes") as found:
        commands.rollback(lake.env)
    told = found[0].next_action
    assert "`schemamig revert --collection planes`" in told and "`accept` and `unmanage` do not go now: generation 2" in told


def test_drift_while_an_upgrade_has_the_table_says_so_of_unmanage(tmp_path: Path) -> None:
    lake = drifted(tmp_path)
    undo = {way["way"]: way for way in read(lake, "drift")["tables"][0]["ways_on"]}
    assert all(way["why_not"] == [] for way in undo.values())
    commands.pin(lake.env, "planes", "ann", 999)
    ways = {way["way"]: way for way in read(lake, "drift")["tables"][0]["ways_on"]}
    assert "ann has pinned its history" in ways["unmanage"]["why_not"][0]


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_rollbacks_preview_tells_of_drift(tmp_path: Path, is_committed: bool) -> None:
    lake = fresh(tmp_path)
    before = {**rollback_lines(lake, is_committed)}
    assert "drift" not in str(before)
    foreign.add_column(lake.path("planes"), "extra")
    preview = rollback_lines(lake, is_committed)
    assert preview["lines"][0].startswith("cannot: [drift] planes") and [item["code"] for item in preview["refusals"]] == ["drift"]


def rollback_lines(lake: Lake, is_committed: bool) -> Any:
    if len(lake.state.deployments) == 1 and is_committed:
        lake.upgrade(lake.second)
    elif len(lake.state.deployments) == 1:
        expanded(lake, lake.second)
    return read(lake, "rollback_preview")


def test_a_rollbacks_preview_says_each_thing_once_and_in_the_words_of_its_form(tmp_path: Path) -> None:
    lake = fresh(tmp_path)
    lake.upgrade(lake.second)
    append(lake.path("stats"), [{"origin": "JFK", "dest": "LAX", "flights": "1"}])
    lines = read(lake, "rollback_preview")["lines"]
    assert not [line for line in lines if "--" in line]
    assert any("goes on only if that is checked below: stats" in line for line in lines)
    assert len([line for line in lines if line.startswith("airports:")]) == 1


def test_a_rollbacks_preview_names_drift_that_is_not_in_its_way(tmp_path: Path) -> None:
    first = "CREATE TABLE a (id BIGINT); CREATE TABLE b (id BIGINT);"
    lake = two_releases(tmp_path, first, first.replace("a (id BIGINT", "a (id BIGINT, v INT"), 'evolution("a")')
    lake.upgrade(lake.second)
    foreign.add_column(lake.path("b"), "extra")
    preview = read(lake, "rollback_preview")
    assert preview["refusals"] == [] and preview["lines"][-1].startswith("b: drifted, and stays as it is: extra")
    commands.rollback(lake.env)
    assert lake.version == "1.0.0"


def test_a_lost_table_is_drift_and_can_only_be_given_up(lake: Lake) -> None:
    import shutil

    shutil.rmtree(lake.path("planes"))
    (found,) = read(lake, "drift")["tables"]
    assert found["differences"] == ["no Delta table is there"] and found["since"] is None
    assert [(way["way"], way["why_not"]) for way in found["ways_on"]] == [("unmanage", [])]
    assert "Which commit made it cannot be told" in drawn("drift.html", read(lake, "drift"))


def test_a_table_through_its_releases(lake: Lake) -> None:
    lake.upgrade(lake.second)
    heartbeat(lake.env, "1.0.0", name="dash")
    document = read(lake, "table", collection="flights")
    assert [release["release"] for release in document["releases"]] == ["1.0.0", "1.1.0"]
    line = next(line for line in document["columns"] if line["name"] == "departure_delay")
    assert [cell["name"] for cell in line["cells"]] == ["dep_delay", "departure_delay"]
    assert [cell and cell["sql"] for cell in line["cells"]] == ["INT", "BIGINT"]
    view = drawn("table.html", document)
    assert "dash" in view and "hour" in view
    commands.rollback(lake.env)
    assert [release["rolled_back_by"] is not None for release in read(lake, "table", collection="flights")["releases"]] == [
        *(False, True, False)
    ]


def test_a_table_says_that_it_drifted_or_is_sealed(tmp_path: Path) -> None:
    lake = hold_drifted(tmp_path)
    view = drawn("table.html", read(lake, "table", collection="planes"))
    assert "drift" in view and "extra: expected nothing, found STRING" in view and "as the ledger says" not in view
    assert "as the ledger says" in drawn("table.html", read(lake, "table", collection="flights"))
    locked = sealed(tmp_path / "other")
    names = [name for name, item in commands.status(locked.env).to_json()["collections"].items() if item["sealed"]]
    assert "its writers are refused until" in drawn("table.html", read(locked, "table", collection=names[0]))


def test_the_end_of_a_hold_names_the_nodes_that_it_would_break(tmp_path: Path) -> None:
    view = deployment_view(read(hold(tmp_path), "deployment"))
    assert "live nodes need it: <code>dashboard-7</code> (reader with release 1.0.0)" in view
    button = view.partition('data-verb="end_hold"')[2].partition("</button>")[0]
    assert '"id": "dashboard-7"' in button, "the dialog is made of it"


def test_a_resume_of_all_says_what_stays_paused(tmp_path: Path) -> None:
    lake = paused(tmp_path)
    commands.pause(lake.env, "planes", by="eve", reason="a repair")
    told = verbs.resume(lake.env, "bob", collection=None, reason="done")["text"]
    assert told.startswith("Everything goes on, but not all of it. flights is still postponed by bob: after the night's load.")
    assert "planes is still paused by eve: a repair. Resume with the collection planes takes that back." in told
    for name in ("flights", "planes"):
        commands.resume(lake.env, name, by="bob")
    assert verbs.resume(lake.env, "bob", collection=None, reason="done")["text"] == "Everything goes on."


def test_pauses_limits_and_forces_have_who_and_since_when(lake: Lake) -> None:
    claimed(lake, lake.second)
    commands.throttle(lake.env, None, rows_per_second=500, by="ann")
    commands.force(lake.env, "planes", by="bob")
    commands.postpone(lake.env, "flights", by="eve")
    told = read(lake, "history")["entries"]
    for view in (deployment_view(read(lake, "deployment")), drawn("environments.html", None, rows=[row(lake)], counts=[])):
        for who, verb in (("ann", "throttle"), ("bob", "force"), ("eve", "postpone")):
            line = next(line for line in view.split("<li>") if f"<b>{who}</b>" in line)
            since = next(entry["started_at"] for entry in told if entry["what"] == verb)
            assert f'since <time datetime="{since[:19]}' in line, verb


def test_many_pauses_and_limits_keep_the_row_of_their_environment_low(lake: Lake) -> None:
    for name in (None, "flights", "stats"):
        commands.throttle(lake.env, name, rows_per_second=500, by="ann")
    commands.pause(lake.env, "planes", by="bob", reason="a repair")
    pauses = drawn("environments.html", None, rows=[row(lake)], counts=[]).partition('<ul class="bare">')[2]
    shown, _, folded = pauses.partition("<details>")
    assert shown.count("<li>") == 2 and "a repair" in shown.split("<li>")[1], "what holds work up is first"
    assert "<summary>2 more</summary>" in folded and folded.count("<li>") == 2


def test_work_whose_leader_is_dead_has_no_time_left_but_its_last_sign_of_life(tmp_path: Path) -> None:
    lake, now = copying(tmp_path), pendulum.now("UTC")
    assert "left" in deployment_view(read(lake, "deployment")).partition("Work on rows")[2].partition("</section>")[0]
    old = now.subtract(hours=3)
    work = Progress(CollectionName("stats"), Generation(2), "copy", "files", 420, 1_000, 8_400_000, old.subtract(minutes=14), old)
    LedgerWriter(lake.env).transact(lambda state: [Put(work)])
    bar = deployment_view(read(lake, "deployment")).partition("Work on rows")[2].partition("</section>")[0]
    front = drawn("environments.html", None, rows=[row(lake)], counts=[])
    for shown in (bar, front):
        assert "no sign of life" in shown and " left" not in shown and f"{old:%Y-%m-%d %H:%M}" in shown


def test_history_is_the_newest_first_and_each_thing_once(lake: Lake) -> None:
    lake.upgrade(lake.second)
    entries = read(lake, "history")["entries"]
    assert [entry["started_at"] for entry in entries] == sorted((entry["started_at"] for entry in entries), reverse=True)
    assert "begun" not in {entry["outcome"] for entry in entries}


def test_documents_are_the_same_while_nothing_happens(lake: Lake) -> None:
    """The page draws nothing anew then, and asks for 204."""
    claimed(lake, lake.second)
    for name, document in DOCUMENTS.items():
        arguments = {"collection": "flights"} if name == "table" else {}
        if name != "rollback_preview":
            assert document.make(lake.env, **arguments) == document.make(lake.env, **arguments), name


def test_the_report_needs_nothing_else(lake: Lake) -> None:
    lake.upgrade(lake.second)
    html = report_html(commands.deployment_document(lake.env))
    for text in ("<script", "<link", "src=", "http://", "https://", "@import", "url("):
        assert text not in html, text
    assert "departure_delay" in html and "1.0.0 → 1.1.0" in html


def test_a_hidden_environment_that_went_ahead_of_us_is_refused(tmp_path: Path) -> None:
    from airflow_provider_schemamig.exceptions import SchemamigError

    found = make_lake(tmp_path)
    for name in DOCUMENTS:
        arguments = {"collection": CollectionName("flights")} if name == "table" else {}
        with pytest.raises(SchemamigError):
            DOCUMENTS[name].make(replace(found.env), **arguments)


def test_a_stream_that_missed_commits_offers_to_restore_its_rows(tmp_path: Path) -> None:
    """Whatever ended it: each kind of gap has a code of its own."""
    (stream,) = read(gap(tmp_path), "streams")["streams"]
    assert (stream["state"], stream["kind"], stream["restore"]) == ("stopped", "bad", True)
    assert stream["next"] == "restore its rows: commits are gone that it never saw"


def test_a_claim_whose_fill_failed_does_not_wait_for_approval(lake: Lake) -> None:
    generation = claimed(lake, lake.second)
    assert read(lake, "overview")["open"]["waits"]
    append_history(lake.env, HistoryEntry.ended("fill", pendulum.now("UTC"), generation=generation, outcome="spark_driver_died"))
    found = read(lake, "overview")["open"]
    assert (found["waits"], found["failed"]) == (False, {"what": "fill", "code": "spark_driver_died"})


def test_a_deployment_that_died_in_its_cut_over_tells_what_is_in_flight(lake: Lake) -> None:
    generation = expanded(lake, lake.second)
    late = HistoryEntry.ended("cutover", pendulum.now("UTC"), generation=generation, outcome="seal_expired", detail="late")
    append_history(lake.env, late)
    document = read(lake, "deployment")
    assert "expand" in {item["kind"] for item in document["in_flight"]}
    shown = deployment_view(document)
    assert "cutover failed" in shown and "seal_expired" in shown and "In flight" in shown
    assert read(lake, "overview")["open"]["failed"] == {"what": "cutover", "code": "seal_expired"}
    for said in ("approve", "rollback asked"):  # an answer mends nothing
        append_history(lake.env, HistoryEntry.ended(said, pendulum.now("UTC"), generation=generation))
    assert "cutover failed" in deployment_view(read(lake, "deployment"))
    assert read(lake, "overview")["open"]["failed"] == {"what": "cutover", "code": "seal_expired"}
