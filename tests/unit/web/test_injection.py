"""What somebody types, and what a ledger says in other people's words: none of it is obeyed by a browser, a spreadsheet, a store or SQL."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pendulum
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.history import HistoryEntry, append_history
from airflow_provider_schemamig.web import pages
from tests.support.lake import Lake
from tests.support.page.app import Page
from tests.support.product import Product

pytestmark = [pytest.mark.airflow, pytest.mark.some(36, of="injections")]

NASTY = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "../../etc/passwd",
    "'; DROP TABLE connection; --",
    "line\nline\r\n\tline",
    "nul \x00 bell \x07 esc \x1b[31m",
    "\u202egnirts desrever\u2066",
    "javascript:alert(1)",
    "x" * 500,
)
FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1", "\uff1d1", '=HYPERLINK("http://x","y")', "=cmd|' /C calc'!A0")


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def assert_tame(html: str) -> None:
    """No script but the page's own, no handler, no address of another scheme, nothing invisible."""
    tags = _Tags()
    tags.feed(html)
    scripts = [attrs.get("src") or "" for tag, attrs in tags.found if tag == "script"]
    assert all(re.fullmatch(r"(\./|(\.\./)+)static/\w+(\.min)?\.js", src) for src in scripts), scripts
    assert not [tag for tag, _ in tags.found if tag in ("img", "iframe", "object", "svg", "base")]
    for tag, attrs in tags.found:
        assert not [name for name in attrs if name.startswith("on")], (tag, attrs)
        assert not [value for value in attrs.values() if (value or "").lower().startswith("javascript:")], (tag, attrs)
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", html)


@pytest.fixture
def lake(page: Page, tmp_path: Path) -> Lake:
    comment = "".join(text for text in NASTY if text.isprintable()).replace("'", "''").replace("\\", "")
    product = Product(tmp_path / "product")
    first = product.release("1.0.0", f"CREATE TABLE a (id BIGINT COMMENT '{comment}') COMMENT '{comment}';")
    second = product.release(
        "1.1.0",
        f"CREATE TABLE a (id BIGINT COMMENT '{comment}', `b<script>` STRING COMMENT '{comment}') COMMENT '{comment}';",
        'evolution("a")',
        doc="A release.\n\nWhy: <script>alert(1)</script> \"'`",
    )
    found = Lake(Environment.open(str(tmp_path / "lake")), first, second)
    found.upgrade(first)
    page.connect("lake", found.env.location.uri)
    return found


def test_injection_what_a_ledger_says_is_text_in_every_view(page: Page, lake: Lake) -> None:
    now = pendulum.now("UTC")
    entries = [HistoryEntry.ended(text[:100], now, collection=text, who=text, detail=text) for text in (*NASTY, *FORMULAS)]
    append_history(lake.env, *entries)
    for text in NASTY:
        commands.pause(lake.env, None, by=text, reason=text)
        assert_tame(page.view("/"))
        assert_tame(page.view("/env/lake/deployments/newest"))
        page.post("/env/lake/resume")
    lake.upgrade(lake.second)
    for view in ("deployments/newest", "deployments/1/report.html", "tables", "tables/a", "drift", "streams", "history"):
        found = page.view(f"/env/lake/{view}")
        assert_tame(re.sub(r"<style>.*?</style>", "", found, flags=re.S))
        assert len(found) > 1000


def test_a_spreadsheet_calculates_nothing(page: Page, lake: Lake) -> None:
    now = pendulum.now("UTC")
    append_history(lake.env, *(HistoryEntry.ended("w", now, collection=text, who=text, detail=text) for text in (*FORMULAS, *NASTY)))
    answer = page.get("/env/lake/history.csv")
    lines = list(csv.reader(io.StringIO(answer.text)))
    assert len(lines) > len(FORMULAS) + len(NASTY)
    for line in lines:
        for cell in line:
            assert cell.strip("\u2409")[:1] not in tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"), line
    assert answer.headers["content-type"].startswith("text/csv")


@pytest.mark.parametrize("text", [*NASTY, "%00", "a%2Fb", "run.", "run.!!!", "run." + "A" * 5000, "uri.Li4v"])
def test_a_key_that_is_none_is_not_found(page: Page, lake: Lake, text: str) -> None:
    from urllib.parse import quote

    for key in {quote(text, safe=""), quote(text, safe="%")}:
        for path in (f"/env/{key}/tables", f"/env/{key}/deployments/newest", f"/api/env/{key}/status"):
            answer = page.get(path)
            assert answer.status_code == 404, (path, answer.status_code)
            assert "alert(1)" not in answer.text
        assert page.post(f"/env/{key}/pause").status_code in (404, 405)


@pytest.mark.parametrize("text", NASTY)
def test_a_collection_or_generation_that_is_none_is_told_as_text(page: Page, lake: Lake, text: str) -> None:
    from urllib.parse import quote

    part = quote(text, safe="")
    found = page.get(f"/env/lake/tables/{part}")
    assert found.status_code in (200, 404, 422)
    if found.status_code == 200:
        assert_tame(found.text)
    assert page.get(f"/env/lake/deployments/{part}").status_code == 404
    assert page.get("/api/env/lake/table", params={"collection": text}).status_code in (409, 422)
    assert page.get("/env/lake/history", params=dict.fromkeys(pages.FILTERS, text)).status_code == 200
    for who in ("viewer", "admin"):
        assert page.get("/run", who=who, params={"dag_id": text, "run_id": text}).status_code in (200, 422)


@pytest.mark.parametrize("number", ["0", "-1", "1e3", "9" * 5000, "\u0663", "", "newest;", "2"])
def test_a_generation_is_a_small_number(page: Page, lake: Lake, number: str) -> None:
    answer = page.get(f"/env/lake/deployments/{number}/report.html")
    assert answer.status_code in (404, 409), answer.status_code
    assert page.get("/api/env/lake/deployment", params={"generation": number}).status_code in (409, 422)


@pytest.mark.parametrize("text", NASTY)
def test_a_reason_is_kept_as_one_visible_line(page: Page, lake: Lake, text: str) -> None:
    answer = page.post("/env/lake/pause", {"reason": text, "collection": "a"})
    assert answer.status_code == 200, answer.text
    (control,) = page.document("lake", "status")["controls"]
    assert control["reason"].isprintable() and control["reason"] and control["paused_by"] == "admin"
    assert_tame(page.view("/env/lake/history"))


@pytest.mark.parametrize(
    "verb, body",
    [
        ("pause", {"reason": ""}),
        ("pause", {"reason": " \n "}),
        ("pause", {"reason": "x" * 501}),
        ("pause", {"reason": None}),
        ("pause", {"reason": ["x"]}),
        ("pause", {}),
        ("pause", []),
        ("pause", {"reason": "x", "collection": {"a": 1}}),
        ("throttle", {"reason": "x", "rows_per_second": 0}),
        ("throttle", {"reason": "x", "rows_per_second": 10**30}),
        ("throttle", {"reason": "x", "window": "22-6\n"}),
        ("throttle", {"reason": "x", "window": "all"}),
        ("approve", {"reason": "x", "generation": 1, "plan": "'; --"}),
        ("approve", {"reason": "x", "generation": "<script>", "plan": "0" * 64}),
        ("cancel", {"reason": "x", "generation": 0}),
        ("revert", {"reason": "x"}),
        ("restore", {"reason": "x", "collection": "a", "origin": "o" * 256}),
    ],
)
def test_a_request_that_says_nothing_is_refused(page: Page, lake: Lake, verb: str, body: object) -> None:
    before = lake.state.version
    assert page.post(f"/env/lake/{verb}", body).status_code == 422
    assert lake.state.version == before


def test_injection_what_no_work_could_keep_is_told(page: Page, lake: Lake) -> None:
    answer = page.post("/env/lake/throttle", {"reason": "x", "window": "99-99"})
    assert answer.status_code == 409 and answer.json()["error"]["code"] == "bad_throttle"
    answer = page.post("/env/lake/pause", {"reason": "x", "collection": "<script>"})
    assert answer.status_code == 409 and answer.headers["content-type"].startswith("application/json")


def test_a_body_cannot_say_who_it_is(page: Page, lake: Lake) -> None:
    page.post("/env/lake/pause", {"reason": "x", "who": "ann", "by": "ann", "user": "ann"}, who="op")
    assert {entry["who"] for entry in page.document("lake", "history")["entries"] if entry["what"] == "pause"} == {"op"}


def test_the_key_of_a_run_is_no_way_around_its_permission(page: Page, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_schemamig.web import access, places

    key = places.key_of_run("secret_dag", "run 1")
    monkeypatch.setattr(places, "environment_of_run", lambda dag_id, run_id: lake.env.location.uri)
    assert page.get(f"/env/{key}/tables").status_code == 200
    seen = access.may_see
    for module in (access, pages):
        monkeypatch.setattr(module, "may_see", lambda user, dag_id: dag_id != "secret_dag" and seen(user, dag_id))
    for path in (f"/env/{key}/tables", f"/api/env/{key}/status", "/run?dag_id=secret_dag&run_id=run+1"):
        assert page.get(path, who="admin").status_code == 403, path
    assert page.post(f"/env/{key}/pause", who="admin").status_code == 403


def test_an_action_works_on_the_environment_of_a_run(page: Page, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_schemamig.web import places

    uri = str(lake.env.location.local_path)
    monkeypatch.setattr(places, "environment_of_run", lambda dag_id, run_id: uri)
    monkeypatch.delenv("AIRFLOW_CONN_LAKE")
    key = places.key_of_run("schemamig_upgrade", "a")
    view = page.view(f"/env/{key}/deployments/newest")
    assert f'data-place="{key}" data-name="lake"' in view, "the name that is typed is one that people know"
    assert page.post(f"/env/{key}/pause").status_code == 200
    assert lake.state.controls


def test_a_run_of_any_dag_does_not_have_its_form_opened(page: Page, lake: Lake) -> None:
    """Whoever may start some DAG of his own cannot have the api-server open a place by writing it into that DAG's form."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from airflow.utils.types import DagRunType

    from airflow_provider_schemamig.web import places

    conf = {"environment": str(lake.env.location.local_path)}
    with create_session() as session:
        session.merge(DagBundleModel(name="dags-folder"))
        session.flush()
        session.merge(DagModel(dag_id="of_ann", bundle_name="dags-folder", fileloc="x"))  # type: ignore[no-untyped-call]
        session.add(DagRun(dag_id="of_ann", run_id="r", run_type=DagRunType.MANUAL, conf=conf))
    try:
        assert page.get(f"/env/{places.key_of_run('of_ann', 'r')}/tables").status_code == 404
        assert "No task of this run" in page.get("/run?dag_id=of_ann&run_id=r").text
    finally:
        with create_session() as session:
            session.query(DagRun).filter_by(dag_id="of_ann").delete()
            session.query(DagModel).filter_by(dag_id="of_ann").delete()


def test_keys_of_runs_are_read_back() -> None:
    from airflow_provider_schemamig.web.places import key_of_run, run_of

    assert run_of(key_of_run("d", "manual__2026-01-01T00:00:00+00:00")) == ("d", "manual__2026-01-01T00:00:00+00:00")
    for text in ("x", "a\nb\x00", "\n", "a\n"):
        assert run_of("run." + base64.urlsafe_b64encode(text.encode()).decode()) is None
    assert json.dumps(run_of("lake")) == "null"
