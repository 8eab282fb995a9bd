"""Who may do what on the page under Airflow's FAB auth manager, which most deployments have: roles in a database, a permission each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.airflow.home import ROOT
from tests.support.airflow.live import LiveAirflow, live_airflow
from tests.support.page.lakes import fresh
from tests.support.processes import wait_until

pytestmark = [pytest.mark.system, pytest.mark.soak, pytest.mark.timeout(600)]

FAB = ROOT / ".fab"
#: May log in, and see one DAG that is none of ours.
NARROW = "Narrow"
#: May see our DAGs by their names alone, and trigger one of them.
CONTROLLER = "Controller"
VIEWS = ("/", "/env/lake/tables", "/env/lake/history.csv", "/api/env/lake/status", "/env/lake/deployments/newest")
READS, FORBIDDEN, DOES = 200, 403, 200


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveAirflow]:
    if not FAB.is_dir():
        pytest.skip("no FAB auth manager here: ops/fab.sh installs it")
    folder = tmp_path_factory.mktemp("fab")
    lake = fresh(folder)
    more = {
        "AIRFLOW__CORE__AUTH_MANAGER": "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager",
        "PYTHONPATH": os.pathsep.join((str(FAB), str(ROOT))),
        "AIRFLOW_CONN_LAKE": json.dumps({"conn_type": "schemamig", "extra": {"environment_uri": lake.env.location.uri}}),
    }
    with live_airflow(folder / "airflow", "schemamig_upgrade.py", "schemamig_control.py", "schemamig_rollback.py", **more) as found:
        _command(found, "sync-perm")
        for role in (NARROW, CONTROLLER):
            _command(found, "roles", "create", role)
        _command(found, "roles", "add-perms", NARROW, "-a", "can_read", "-r", "Website")
        for dag_id in ("schemamig_upgrade", "schemamig_control"):
            _command(found, "roles", "add-perms", CONTROLLER, "-a", "can_read", "-r", f"DAG:{dag_id}")
        # Whoever triggers a DAG under FAB may edit it (pause it) as well.
        _command(found, "roles", "add-perms", CONTROLLER, "-a", "can_edit", "-r", "DAG:schemamig_control")
        _command(found, "roles", "add-perms", CONTROLLER, "-a", "can_create", "-r", "DAG Run:schemamig_control")
        for role in ("Viewer", "User", "Op", "Admin", NARROW, CONTROLLER):
            _command(found, "users", "create", "-u", role.lower(), "-p", "pw", "-r", role, "-e", f"{role}@test", "-f", role, "-l", role)
        wait_until(lambda: _status(found, "/schemamig/", None) == 401, 120)
        yield found


def _command(airflow: LiveAirflow, *words: str) -> None:
    command = [str(Path(sys.executable).with_name("airflow")), *words]
    done = subprocess.run(command, env=airflow.environment, cwd=airflow.home, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _send(airflow: LiveAirflow, path: str, token: str | None, body: Any = None) -> tuple[int, str]:
    headers = {"Content-Type": "application/json"} | ({} if token is None else {"Authorization": f"Bearer {token}"})
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{airflow.port}{path}", data, headers), timeout=60) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def _status(airflow: LiveAirflow, path: str, token: str | None, body: Any = None) -> int:
    return _send(airflow, path, token, body)[0]


def _token(airflow: LiveAirflow, who: str) -> str:
    status, text = _send(airflow, "/auth/token", None, {"username": who, "password": "pw"})
    assert status in (200, 201), text
    return str(json.loads(text)["access_token"])


@pytest.mark.parametrize(
    "who, sees, controls, rolls_back",
    [
        ("viewer", READS, FORBIDDEN, FORBIDDEN),
        ("user", READS, DOES, DOES),
        ("op", READS, DOES, DOES),
        ("admin", READS, DOES, DOES),
        ("narrow", FORBIDDEN, FORBIDDEN, FORBIDDEN),
        ("controller", READS, DOES, FORBIDDEN),
    ],
)
def test_a_role_may_what_its_permissions_say(airflow: LiveAirflow, who: str, sees: int, controls: int, rolls_back: int) -> None:
    token = _token(airflow, who)
    assert {_status(airflow, f"/schemamig{path}", token) for path in VIEWS} == {sees}
    assert _status(airflow, "/schemamig/env/lake/pause", token, {"reason": f"by {who}"}) == controls
    rolled = _status(airflow, "/schemamig/env/lake/rollback", token, {"generation": 1, "reason": f"by {who}"})
    assert rolled == rolls_back or (rolls_back == DOES and rolled == 409)  # its DAG is paused in Airflow
    if controls == DOES:
        history = json.loads(_send(airflow, "/schemamig/api/env/lake/history", token)[1])["entries"]
        assert (history[0]["what"], history[0]["who"]) in (("pause", history[0]["who"]), ("rollback asked", history[0]["who"]))
        assert any(entry["what"] == "pause" and who in entry["who"].lower() for entry in history)


def test_nobody_sees_nothing(airflow: LiveAirflow) -> None:
    assert {_status(airflow, f"/schemamig{path}", None) for path in VIEWS} == {401}
    assert _status(airflow, "/schemamig/env/lake/pause", None, {"reason": "x"}) == 401
    assert _status(airflow, "/schemamig/static/schemamig.css", None) == 200
