"""What a connection holds of credentials: it goes to the reading process, and into no answer, log, error or command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_schemamig.web import pages, reading
from tests.support.page.app import Page
from tests.support.stores.silent_server import silent_server

pytestmark = pytest.mark.airflow

SECRET, PASSWORD, KEY = "S3CRETSECRET", "passw0rdpassw0rd", "AKIASECRETKEY"
VIEWS = ("deployments/newest", "tables", "tables/a", "drift", "streams", "history")


def answers(page: Page, key: str) -> str:
    """Everything that the page says about an environment, to an admin too."""
    found = []
    for who in ("viewer", "admin"):
        paths = ["/", "/api/environments", *(f"/env/{key}/{view}" for view in VIEWS)]
        paths += [f"/env/{key}/history.csv", f"/env/{key}/rollback_preview", f"/api/env/{key}/status"]
        for path in paths:
            answer = page.get(path, who)
            found.append(f"{answer.headers} {answer.text}")
    found.append(page.post(f"/env/{key}/pause").text)
    return "\n".join(found)


@pytest.mark.parametrize(
    "uri, options",
    [
        (f"s3://{KEY}:{PASSWORD}@bucket/lake", {"endpoint": "http://127.0.0.1:1", "allow_http": "true", "region": "r"}),
        ("s3://bucket/lake", {"access_key_id": KEY, "secret_access_key": SECRET, "endpoint": "http://127.0.0.1:1", "allow_http": "true"}),
        ("s3://bucket/lake", {"aws_secret_access_key": SECRET, "no_such_option": PASSWORD}),
        (f"abfss://c@account.dfs.core.windows.net/lake?sig={SECRET}", {"sas_token": f"sv=1&sig={SECRET}"}),
        (f"http://ann:{PASSWORD}@host/lake", {}),
    ],
)
def test_no_answer_tells_a_secret(
    page: Page,
    uri: str,
    options: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(reading, "DEADLINE_SECONDS", 0.3)
    page.connect("far", uri, **options)
    told = answers(page, "far") + "".join(capfd.readouterr()) + caplog.text + repr(pages.reader)
    assert "far" in told
    for secret in (SECRET, PASSWORD, KEY):
        assert secret not in told


def test_a_connection_that_cannot_be_used_is_told_and_stands_beside_the_others(page: Page, tmp_path: Path) -> None:
    page.connect("good", str(tmp_path / "lake"))
    page.patch.setenv(
        "AIRFLOW_CONN_NO_URI", json.dumps({"conn_type": "schemamig", "extra": {"storage_options": {"secret_access_key": SECRET}}})
    )
    page.patch.setenv("AIRFLOW_CONN_BROKEN", "{" + SECRET)
    page.patch.setenv("AIRFLOW_CONN_OTHER", f"postgres://ann:{PASSWORD}@host/db")
    page.patch.setenv("AIRFLOW_CONN_ODD", json.dumps({"conn_type": "schemamig", "extra": SECRET}))
    found = page.get("/api/environments")
    assert found.status_code == 200
    by_key = {item["key"]: item for item in found.json()["environments"]}
    assert {"good", "no_uri"} <= set(by_key) and "other" not in by_key and by_key["no_uri"]["error"]["code"] == "connection_unusable"
    assert SECRET not in found.text and PASSWORD not in found.text
    assert page.get("/").status_code == 200
    assert page.post("/env/no_uri/pause").status_code == 409


def test_a_secret_is_on_no_command_line(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "DEADLINE_SECONDS", 0.3)
    with silent_server() as port:
        page.connect(
            "far", "s3://bucket/lake", secret_access_key=SECRET, endpoint=f"http://127.0.0.1:{port}", allow_http="true", region="r"
        )
        page.get("/env/far/tables")
        pid = pages.reader.pid
        line, environment = (Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))
    assert SECRET.encode() not in line + environment
    assert b"AIRFLOW_CONN_" not in environment and b"AIRFLOW__" not in environment


def test_a_reason_with_a_password_is_blanked(page: Page, tmp_path: Path) -> None:
    from tests.support.lake import make_lake

    lake = make_lake(tmp_path)
    lake.upgrade(lake.first)
    page.connect("lake", lake.env.location.uri)
    page.post("/env/lake/pause", {"reason": f"see postgres://ann:{PASSWORD}@host/db"})
    assert PASSWORD not in page.get("/api/env/lake/history").text + page.get("/api/env/lake/status").text
