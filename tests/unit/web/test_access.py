"""Who may ask what of the page: every route of the app, for each role, under Airflow's Simple auth manager."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core.html.render import STATIC
from tests.support.lake import Lake, make_lake
from tests.support.page.app import ROLES, Page

pytestmark = pytest.mark.airflow

#: Every view and document: what it is asked for here, and the status that a viewer gets.
VIEWS = {
    "/": ("/", 200),
    "/run": ("/run?dag_id=none&run_id=none", 200),
    "/env/{key}/deployments/{generation}": ("/env/lake/deployments/newest", 200),
    "/env/{key}/deployments/{generation}/report.html": ("/env/lake/deployments/1/report.html", 200),
    "/env/{key}/tables": ("/env/lake/tables", 200),
    "/env/{key}/tables/{collection}": ("/env/lake/tables/flights", 200),
    "/env/{key}/drift": ("/env/lake/drift", 200),
    "/env/{key}/streams": ("/env/lake/streams", 200),
    "/env/{key}/history": ("/env/lake/history", 200),
    "/env/{key}/history.csv": ("/env/lake/history.csv", 200),
    "/env/{key}/history.json": ("/env/lake/history.json", 200),
    "/env/{key}/rollback_preview": ("/env/lake/rollback_preview", 409),
    "/runbook": ("/runbook", 200),
    "/api/environments": ("/api/environments", 200),
    "/api/env/{key}/{name}": ("/api/env/lake/overview", 200),
}
PLAN = {"generation": 1, "plan": "0" * 64}
#: Every action, what it is sent here, and the status that one who may do it gets: 409, for nothing waits, and the DAGs are not there.
ACTIONS: dict[str, tuple[dict[str, Any], int]] = {
    "pause": ({}, 200),
    "resume": ({}, 200),
    "postpone": ({}, 200),
    "force": ({"collection": "flights"}, 200),
    "throttle": ({"rows_per_second": 5}, 200),
    "approve": (PLAN, 409),
    "reject": (PLAN, 409),
    "cancel": ({"generation": 1}, 409),
    "end_hold": ({"generation": 1}, 409),
    "revert": ({"collection": "flights"}, 409),
    "unmanage": ({"collection": "flights"}, 409),
    "rollback": ({"generation": 1}, 409),
    "restore": ({"collection": "flights", "origin": "other"}, 409),
}
STATIC_ROUTE = "/static/{name}"


@pytest.fixture
def lake(page: Page, tmp_path: Path) -> Lake:
    found = make_lake(tmp_path)
    found.upgrade(found.first)
    page.connect("lake", found.env.location.uri)
    return found


def test_every_route_stands_in_a_table_here(page: Page) -> None:
    """A route that is added without one fails, and so do routes that no permission guards: they are asked without a user below."""
    found = {(route.path, *sorted(route.methods)) for route in page.site.app.routes}
    assert found == {(path, "GET") for path in (*VIEWS, STATIC_ROUTE)} | {(f"/env/{{key}}/{verb}", "POST") for verb in ACTIONS}


def test_nobody_gets_nothing(page: Page, lake: Lake) -> None:
    for path, _ in VIEWS.values():
        answer = page.get(path, who=None)
        assert (answer.status_code, answer.json()) == (401, {"detail": "Not authenticated"}), path
    for verb, (body, _) in ACTIONS.items():
        assert page.post(f"/env/lake/{verb}", {"reason": "x", **body}, who=None).status_code == 401, verb
    for token in ("x", "a.b.c", page.site.tokens["admin"][:-4] + "AAAA"):
        assert page.get("/", who=None, headers={"Authorization": f"Bearer {token}"}).status_code in (401, 403)


def test_a_viewer_reads_and_changes_nothing(page: Page, lake: Lake) -> None:
    before = lake.state.version
    for path, status in VIEWS.values():
        assert page.get(path).status_code == status, path
    for verb, (body, _) in ACTIONS.items():
        answer = page.post(f"/env/lake/{verb}", {"reason": "x", **body}, who="viewer")
        assert answer.status_code == 403 and "may trigger the DAG" in answer.json()["detail"], (verb, answer.text)
    assert lake.state.version == before


@pytest.mark.parametrize("role", [role for role in ROLES if role != "viewer"])
def test_page_access_who_may_trigger_the_dag_may_do_it(page: Page, lake: Lake, role: str) -> None:
    for verb, (body, status) in ACTIONS.items():
        answer = page.post(f"/env/lake/{verb}", {"reason": "because", **body}, who=role)
        assert answer.status_code == status, (verb, answer.text)
    told = {(entry["what"], entry["who"]) for entry in page.document("lake", "history")["entries"]}
    assert {("pause", role), ("resume", role), ("postpone", role), ("force", role), ("throttle", role)} <= told
    assert not any(what.endswith("asked") for what, _ in told), "nothing was asked for: the DAGs are not there"


def test_the_session_cookie_is_enough_for_a_frame(page: Page, lake: Lake) -> None:
    from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN

    cookie = {"Cookie": f"{COOKIE_NAME_JWT_TOKEN}={page.site.tokens['viewer']}"}
    assert page.get("/", who=None, headers=cookie).status_code == 200


def test_static_files_are_for_everybody_and_hold_no_data(page: Page, lake: Lake) -> None:
    for name, kind in STATIC.items():
        answer = page.get(f"/static/{name}", who=None)
        assert answer.status_code == 200 and answer.headers["content-type"].startswith(kind)
        assert answer.content == (Path(__file__).parents[3] / "airflow_provider_schemamig/core/html/static" / name).read_bytes()
    for name in ("../render.py", "..%2frender.py", "%2e%2e/render.py", "htmx.LICENSE", "nothing", "a/b"):
        assert page.get(f"/static/{name}", who=None).status_code == 404, name


def test_every_answer_forbids_what_a_page_could_be_used_for(page: Page, lake: Lake) -> None:
    for path, _ in VIEWS.values():
        headers = page.get(path).headers
        assert headers["x-content-type-options"] == "nosniff", path
        assert headers["cache-control"] == "no-store", path
        assert "default-src 'none'" in headers["content-security-policy"] and "unsafe-eval" not in headers["content-security-policy"]


@pytest.mark.parametrize(
    "headers, status",
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
        ({"Content-Type": "text/plain; application/json"}, 415),
        ({"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "application/json", "Sec-Fetch-Site": "same-site"}, 403),
        ({"Content-Type": "application/json; charset=utf-8", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Content-Type": "application/json"}, 200),
    ],
)
def test_page_access_what_another_site_makes_a_browser_send_is_refused(
    page: Page, lake: Lake, headers: dict[str, str], status: int
) -> None:
    answer = page.site.ask("POST", "/env/lake/pause", "admin", content=b'{"reason": "x"}', headers=headers)
    assert answer.status_code == status, answer.text
    assert bool(lake.state.controls) is (status == 200)


@pytest.mark.parametrize(
    ("path", "who", "status", "told"),
    [
        ("/env/lake/drift", None, 401, ("Nobody is logged in", "Log in to Airflow", "/login")),
        ("/env/nope/drift", "viewer", 404, ("Not there", "Environments", "../../")),
    ],
)
def test_a_person_who_opens_an_address_gets_a_page_with_a_way_on(
    lake: Lake, page: Page, path: str, who: str | None, status: int, told: tuple[str, ...]
) -> None:
    answer = page.get(path, who, headers={"accept": "text/html,*/*"})
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (status, "text/html")
    for words in told:
        assert words in answer.text
    assert page.get(path, who).headers["content-type"] == "application/json"
