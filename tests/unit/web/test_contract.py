"""What other programs rely on of the page: the OpenAPI document of its app. Run the module to write the golden file anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.airflow import home as airflow_home

GOLDEN = Path(__file__).with_name("openapi.json")

pytestmark = pytest.mark.airflow


def described() -> Any:
    from airflow_provider_schemamig.web.app import make_app

    found = make_app().openapi()
    found["info"]["version"] = "*"
    return json.loads(json.dumps(found, sort_keys=True))


def test_page_contract_what_programs_may_send_is_as_it_was() -> None:
    assert described() == json.loads(GOLDEN.read_text()), "if it is meant: .venv/bin/python -m tests.unit.web.test_contract"


def test_page_contract_is_served_to_nobody(page: Any) -> None:
    for path in ("/openapi.json", "/docs", "/redoc"):
        assert page.get(path, who="admin").status_code == 404


if __name__ == "__main__":
    airflow_home.prepare()
    GOLDEN.write_text(json.dumps(described(), indent=1, sort_keys=True) + "\n")
