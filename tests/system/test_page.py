"""The page in a real browser, on a running Airflow: every view, a lake in each state, every button; pictures go to docs/images."""

from __future__ import annotations

import itertools
import json
import re
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from airflow_provider_schemamig.core.ledger.history import read_history
from airflow_provider_schemamig.task_groups.task_docs import TASK_DOCS
from tests.support.airflow.home import DAGS
from tests.support.airflow.live import LiveAirflow, free_port, live_airflow
from tests.support.lake import Lake
from tests.support.page.browser import browser as a_browser
from tests.support.page.browser import chromium
from tests.support.page.lakes import MANY, STATES, drifted, fresh, hold, hold_drifted, waits
from tests.support.page.tab import Tab, tab
from tests.support.processes import wait_until

pytestmark = [pytest.mark.system, pytest.mark.soak, pytest.mark.timeout(900)]

#: Lakes that a test of buttons changes; the rest are looked at only.
BUTTONS = {"pressed": waits, "cancelled": waits, "undone": hold, "ended": hold, "mended": drifted, "approved": fresh, "rejected": fresh}
BUTTONS |= {"refused": hold_drifted}
DAG_FILES = sorted(path.name for path in DAGS.glob("*.py"))


@pytest.fixture(scope="module")
def lakes() -> Iterator[dict[str, Lake]]:
    """In a place, by a person and on a machine that may be seen on the pictures."""
    chromium()  # without one nothing is made
    with tempfile.TemporaryDirectory(prefix="lakes-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOGNAME", "ann")
        patch.setattr(socket, "gethostname", lambda: "laptop")
        found = {}
        for name, make in {**STATES, **BUTTONS}.items():
            place = Path(folder, name)
            place.mkdir()
            found[name] = make(place)
        yield found


@pytest.fixture(scope="module")
def airflow(lakes: dict[str, Lake], tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveAirflow]:
    connections = {
        f"AIRFLOW_CONN_{name.upper()}": json.dumps({"conn_type": "schemamig", "extra": {"environment_uri": lake.env.location.uri}})
        for name, lake in lakes.items()
    }
    with live_airflow(tmp_path_factory.mktemp("live") / "airflow", *DAG_FILES, **connections) as found:
        for dag_id in ("schemamig_control", "schemamig_rollback", "schemamig_restore", "schemamig_upgrade"):
            found.unpause(dag_id)
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as found:
        yield found


@pytest.fixture
def page(browser: Browser, airflow: LiveAirflow) -> Iterator[Tab]:
    with tab(browser, airflow) as found:
        yield found


def asked_of(told: str) -> tuple[str, str]:
    """The DAG and the run of ``DAG does it: run ID. Whether it could ...``"""
    dag_id, _, rest = told.partition(" does it: run ")
    return dag_id, rest.partition(". Whether it could")[0]


def ended(airflow: LiveAirflow, told: str) -> dict[str, Any]:
    """The run that a button started, at its end."""
    dag_id, run_id = asked_of(told)

    def run() -> dict[str, Any]:
        found: dict[str, Any] = airflow.ask(f"dags/{dag_id}/dagRuns/{quote(run_id)}")
        return found

    wait_until(lambda: run()["state"] in ("success", "failed"), 300, pause_seconds=1)
    return run()


# --- views ---------------------------------------------------------------------------------------------------------------------------


def test_environments_count_first_and_every_state_is_told(page: Tab) -> None:
    page.open("/")
    for name, lake in STATES.items():
        page.page.wait_for_selector(f"a:text-is('{name}')")
        assert lake is not None
    page.until("!document.body.textContent.includes('reading …')")
    text = page.text()
    for told in ("upgrades under way", "drifted", "month end: no change before Monday", "sealed", "left", "waiting", "dashboard-7"):
        assert told in text, told
    page.picture("environments")


@pytest.mark.parametrize(
    "name, shows",
    [
        ("fresh", ["committed", "nothing → 1.0.0"]),
        ("waits", ["claimed", "Approve", "Whom it breaks", "departure_delay"]),
        ("copying", ["420 of 1,000 files", "throttled", "left"]),
        ("sealed", ["promoted"]),
        ("hold", ["Roll back", "End hold", "left"]),
        ("paused", ["month end: no change before Monday", "ann", "last step postponed"]),
        ("failed", ["spark_driver_died", "the driver ran out of memory"]),
        ("many", ["1.0.0 → 1.1.0", f"{MANY - 100} more stand in the report"]),
    ],
)
def test_a_deployment_in_each_state(page: Tab, name: str, shows: list[str]) -> None:
    page.open(f"/env/{name}/deployments/newest", "#live h2")
    for text in shows:
        page.sees(text)
    if name in ("waits", "copying", "hold"):
        page.picture(f"deployment-{name}")


@pytest.mark.parametrize(
    "path, shows",
    [
        ("/env/hold/tables", ["airports", "planes"]),
        ("/env/hold/tables/flights", ["departure_delay", "dep_delay", "Releases and columns", "dashboard-7"]),
        ("/env/drifted/drift", ["extra", "Since table version", "Revert", "Unmanage"]),
        ("/env/gap/streams", ["trips", "Restore rows", "commits are gone"]),
        ("/env/hold/history", ["cutover", "Nothing here expires"]),
    ],
)
def test_every_other_view(page: Tab, path: str, shows: list[str]) -> None:
    page.open(path, "#live h1")
    for text in shows:
        page.sees(text)
    page.picture(path.rsplit("/", 1)[-1] if "flights" not in path else "table")


def test_a_thousand_collections_are_filtered_without_lag(page: Tab) -> None:
    page.open("/env/many/tables", "#tables tbody tr")
    assert page.page.locator("#tables tbody tr:visible").count() == MANY
    began = time.monotonic()
    page.page.fill("input[data-filter]", "t0042")
    page.until("document.querySelectorAll('#tables tbody tr:not([hidden])').length === 1")
    assert time.monotonic() - began < 1


def test_history_is_filtered_and_exported(page: Tab, airflow: LiveAirflow) -> None:
    page.open("/env/hold/history")
    page.page.fill("input[name=what]", "cutover")
    page.page.click("button:text-is('Filter')")
    page.page.wait_for_url("**what=cutover**")
    assert set(page.page.locator("tbody tr td:nth-child(3)").all_inner_texts()) == {"cutover"}
    with page.page.expect_download() as download:
        page.page.click("a:text-is('CSV')")
    assert "cutover" in Path(download.value.path()).read_text()
    page.page.goto(f"{page.base}/schemamig/env/hold/deployments/newest")
    with page.page.expect_download() as download:
        page.page.click("a:text-is('Report as one file')")
    assert "departure_delay" in Path(download.value.path()).read_text()


# --- buttons -------------------------------------------------------------------------------------------------------------------------


def test_the_brakes_act_at_once(page: Tab, lakes: dict[str, Lake]) -> None:
    page.open("/env/pressed/deployments/newest", "#live h2")
    for verb, fields, sign in (
        ("pause", {}, "a test of pause"),
        ("resume", {}, ""),
        ("postpone", {"collection": "flights"}, "a test of postpone"),
        ("force", {"collection": "planes"}, "forced"),
        ("throttle", {"rows_per_second": 500, "window": "22-6"}, "500 rows a second"),
    ):
        page.press(verb, **fields)
        page.sees(sign)
        page.page.wait_for_timeout(100)
    told = {(entry.what, entry.who) for entry in read_history(lakes["pressed"].env)}
    assert {(verb, "admin") for verb in ("pause", "resume", "postpone", "force", "throttle")} <= told
    page.press("approve")
    page.sees("Approved by\nadmin")
    assert page.page.locator("button[data-verb=approve]").count() == 0


def test_cancel_asks_for_the_name(page: Tab, airflow: LiveAirflow, lakes: dict[str, Lake]) -> None:
    page.open("/env/cancelled/deployments/newest", "#live h2")
    page.page.click("button[data-verb=cancel]")
    page.page.fill("#ask-fields input[name=reason]", "x")
    page.page.fill("#ask-fields input[name=typed]", "something else")
    page.page.click("#ask-yes")
    assert "not the environment's name" in (page.page.text_content("#ask-failed") or "")
    page.page.keyboard.press("Escape")
    run = ended(airflow, page.press("cancel", typed="cancelled"))
    assert (run["state"], run["triggering_user_name"]) == ("success", "admin")
    assert "cancelled" in str(lakes["cancelled"].state.deployments[max(lakes["cancelled"].state.deployments)].state).lower()


def test_rollback_shows_first_what_it_would_do(page: Tab, airflow: LiveAirflow, lakes: dict[str, Lake]) -> None:
    page.open("/env/undone/deployments/newest", "#live h2")
    page.page.click("button[data-verb=rollback]")
    page.page.wait_for_selector("#ask-text li:has-text('1.1.0 goes back to 1.0.0')")
    page.picture("rollback")
    page.page.keyboard.press("Escape")
    run = ended(airflow, page.press("rollback", typed="undone"))
    assert (run["state"], lakes["undone"].version) == ("success", "1.0.0")
    page.until("document.querySelector('.state-rolled_back') !== null", 60)


def test_a_refused_button_is_told_on_the_page(page: Tab, airflow: LiveAirflow) -> None:
    page.open("/env/refused/deployments/newest", "#live h2")
    assert ended(airflow, page.press("rollback", typed="refused"))["state"] == "failed"
    page.sees("Asked for lately")
    page.sees("rollback failed: [drift] planes")
    page.open("/")
    page.sees("asked for and failed")
    page.sees("rollback failed")


def test_a_hold_is_ended(page: Tab, airflow: LiveAirflow, lakes: dict[str, Lake]) -> None:
    page.open("/env/ended/deployments/newest", "#live h2")
    assert ended(airflow, page.press("end_hold", ignore_nodes=True, typed="ended"))["state"] == "success"
    assert all("closed" in str(found.state).lower() for found in lakes["ended"].state.holds.values())


def test_drift_is_reverted_and_a_table_given_back(page: Tab, airflow: LiveAirflow, lakes: dict[str, Lake]) -> None:
    page.open("/env/mended/drift", "#live h3")
    assert ended(airflow, page.press("revert", "planes", typed="mended", **_lossy(page, "planes")))["state"] == "success"
    page.until("![...document.querySelectorAll('#live h3')].some((title) => title.textContent.includes('planes'))", 60)
    assert ended(airflow, page.press("unmanage", "stats", typed="mended"))["state"] == "success"
    page.sees("Every table is as the ledger says", 60)
    assert "stats" not in lakes["mended"].state.objects


def _lossy(page: Tab, collection: str) -> dict[str, Any]:
    button = page.page.locator(f"button[data-verb=revert][data-about*='{collection}']")
    return {"allow_lossy": True} if json.loads(button.get_attribute("data-about") or "{}")["losses"] else {}


def test_restore_asks_its_dag(page: Tab, airflow: LiveAirflow) -> None:
    page.open("/env/gap/streams", "button[data-verb=restore]")
    told = page.press("restore", origin="fresh", typed="gap")
    _, run_id = asked_of(told)
    run = airflow.ask(f"dags/schemamig_restore/dagRuns/{quote(run_id)}")
    assert run["conf"] == {"origin": "fresh", "target": "gap", "collection": "trips", "allow_lossy": False}
    assert run["triggering_user_name"] == "admin"


@pytest.mark.parametrize("name, verb, at", [("approved", "approve", "1.1.0"), ("rejected", "reject", "1.0.0")])
def test_airflows_own_approval_is_answered_on_the_tab_of_the_run(
    page: Tab, airflow: LiveAirflow, lakes: dict[str, Lake], name: str, verb: str, at: str
) -> None:
    conf = {"environment": name, "release": str(lakes[name].second)}
    run = airflow.ask("dags/schemamig_upgrade/dagRuns", "POST", {"logical_date": None, "conf": conf})["dag_run_id"]
    wait_until(lambda: "approval" in _waiting(airflow, run), 300, pause_seconds=1)
    page.page.goto(f"{page.base}/dags/schemamig_upgrade/runs/{quote(run)}/plugin/schemamig_run")
    frame = page.page.frame_locator("iframe")
    page.page.wait_for_selector("iframe")
    frame.locator(f"button[data-verb={verb}]").wait_for(timeout=60_000)
    page.page.wait_for_timeout(1000)
    if verb == "approve":
        page.picture("tab-of-a-run")
    frame.locator(f"button[data-verb={verb}]").click()
    frame.locator("#ask-fields input[name=reason]").fill("looked at it")
    frame.locator("#ask-yes").click()
    wait_until(lambda: _run(airflow, run)["state"] in ("success", "failed"), 300, pause_seconds=1)
    assert (_run(airflow, run)["state"], lakes[name].version) == ("success", at)
    page.wrong.clear()  # Airflow's own page around it


def _run(airflow: LiveAirflow, run: str) -> dict[str, Any]:
    found: dict[str, Any] = airflow.ask(f"dags/schemamig_upgrade/dagRuns/{quote(run)}")
    return found


def _waiting(airflow: LiveAirflow, run: str) -> str:
    found = airflow.tasks("schemamig_upgrade", run)
    return " ".join(name for (name, _), task in found.items() if task["state"] in ("deferred", "awaiting_input"))


# --- how it behaves ------------------------------------------------------------------------------------------------------------------


def test_by_keyboard_alone(page: Tab, lakes: dict[str, Lake]) -> None:
    page.open("/env/fresh/deployments/newest", "#live h2")
    page.page.keyboard.press("Tab")
    assert page.page.evaluate("document.activeElement.className") == "skip"
    page.open("/env/copying/deployments/newest", "#live h2")
    for _ in range(40):
        page.page.keyboard.press("Tab")
        if page.page.evaluate("document.activeElement.dataset.verb") == "pause":
            break
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("dialog[open]")
    page.page.keyboard.press("Tab")
    page.page.keyboard.type("by keyboard")
    page.page.keyboard.press("Enter")
    page.sees("by keyboard")
    page.until("document.activeElement && document.activeElement.dataset.verb === 'pause'")


def test_light_and_dark_follow_airflows_switch(browser: Browser, airflow: LiveAirflow) -> None:
    back = "getComputedStyle(document.body).backgroundColor"
    with tab(browser, airflow, color_scheme="dark") as page:
        page.open("/env/hold/deployments/newest", "#live h2")
        assert page.page.evaluate(back) == "rgb(21, 25, 29)"
        page.picture("deployment-dark")
        page.page.evaluate("localStorage.setItem('theme', 'light')")
        page.page.reload()
        assert page.page.evaluate(back) == "rgb(255, 255, 255)", "Airflow's own switch counts before the system's"
    with tab(browser, airflow, color_scheme="light") as page:
        page.open("/")
        page.page.evaluate("localStorage.setItem('theme', 'dark')")
        page.page.reload()
        assert page.page.evaluate(back) == "rgb(21, 25, 29)"


def test_a_narrow_window_scrolls_in_tables_only(browser: Browser, airflow: LiveAirflow) -> None:
    with tab(browser, airflow, viewport={"width": 380, "height": 720}) as page:
        for path in ("/", "/env/hold/deployments/newest", "/env/hold/tables/flights", "/env/drifted/drift", "/env/hold/history"):
            page.open(path)
            assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1"), path
        page.open("/env/hold/deployments/newest", "#live h2")
        page.picture("narrow")


@pytest.mark.parametrize("width", [380, 900])
def test_rows_stay_low_in_a_narrow_window(browser: Browser, airflow: LiveAirflow, width: int) -> None:
    with tab(browser, airflow, viewport={"width": width, "height": 720}) as page:
        page.open("/")
        page.until("!document.body.textContent.includes('reading …')")
        heights = page.page.evaluate("[...document.querySelectorAll('table.list tbody tr')].map((row) => row.offsetHeight)")
        assert len(heights) >= len(STATES) and max(heights) <= 130, heights
        assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")
        page.open("/env/hold/tables")
        assert page.page.evaluate("Math.max(...[...document.querySelectorAll('#tables tbody tr')].map((row) => row.offsetHeight))") <= 80


def test_page_asks_seldom_and_not_while_nobody_looks(page: Tab) -> None:
    page.open("/env/fresh/tables", "#tables")
    page.page.wait_for_timeout(11_000)
    times = [at for at, _ in page.asked]
    assert 2 <= len(times) <= 5
    assert all(later - earlier >= 2 for earlier, later in itertools.pairwise(times))
    page.page.evaluate("Object.defineProperty(document, 'hidden', {get: () => true})")
    page.asked.clear()
    page.page.wait_for_timeout(7_000)
    assert page.asked == []


def test_in_airflows_own_navigation(page: Tab) -> None:
    page.page.goto(f"{page.base}/plugin/schemamig")
    page.page.frame_locator("iframe").locator("h1:has-text('Environments')").wait_for(timeout=60_000)
    page.page.wait_for_timeout(1500)
    page.picture("in-airflow")
    page.wrong.clear()  # Airflow's own page around it


def test_airflows_graph_of_an_upgrade_shows_every_task_at_once(page: Tab) -> None:
    """Not one box that has to be opened."""
    page.page.set_viewport_size({"width": 1600, "height": 640})
    page.page.goto(f"{page.base}/dags/schemamig_upgrade")
    page.page.click("button[aria-label^='Show Graph']")
    page.page.click("button[aria-label='Collapse Details Panel']")
    page.page.wait_for_timeout(1500)
    page.page.click("button[aria-label='Fit View']")
    page.page.wait_for_timeout(1500)
    assert set(TASK_DOCS) <= set(re.findall(r"\w+", page.page.inner_text(".react-flow__nodes")))
    page.picture("graph")
    page.wrong.clear()  # Airflow's own page


def test_behind_a_reverse_proxy_with_a_path(browser: Browser, airflow: LiveAirflow) -> None:
    from tests.support.stores.in_between import in_between

    port, asked = free_port(), list[str]()
    more = {"AIRFLOW__API__PORT": str(port)}
    with in_between(f"http://127.0.0.1:{port}", lambda method, path: asked.append(path)) as proxy:
        more["AIRFLOW__API__BASE_URL"] = f"{proxy}/airflow"
        with airflow.second_server(port, more), tab(browser, airflow, f"{proxy}/airflow") as page:
            page.open("/")
            page.page.click("a:text-is('hold')")
            page.page.wait_for_url("**/airflow/schemamig/env/hold/deployments/newest")
            page.sees("Roll back")
            page.page.click("nav a:text-is('Tables')")
            page.page.click("a:text-is('flights')")
            page.sees("departure_delay")
            page.page.goto(f"{page.base}/plugin/schemamig")
            page.page.frame_locator("iframe").locator("h1:has-text('Environments')").wait_for(timeout=60_000)
            page.wrong.clear()
    assert all(path.startswith("/airflow") for path in asked if "schemamig" in path), asked
