"""The page's app in this process, asked as users of Airflow's Simple auth manager, and lakes that it shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

#: Roles of the Simple auth manager; the name of a user is his role's.
ROLES = ("viewer", "user", "op", "admin")
PREFIX = "/schemamig"


@dataclass
class Site:
    """The app, mounted as Airflow does it. ``client`` runs its event loop."""

    app: Any
    client: TestClient
    tokens: dict[str, str] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def opened(cls, folder: Path) -> Iterator[Site]:
        import os

        from airflow.api_fastapi.app import create_auth_manager
        from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
        from fastapi import FastAPI

        from airflow_provider_schemamig.web.app import make_app

        os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"] = str(folder / "passwords.json")
        manager = create_auth_manager()
        manager.init()
        outer, app = FastAPI(), make_app()
        outer.mount(PREFIX, app)
        outer.state.auth_manager = manager
        tokens = {role: manager.generate_jwt(SimpleAuthManagerUser(username=role, role=role.upper())) for role in ROLES}
        with TestClient(outer, base_url="http://page.test", raise_server_exceptions=False, follow_redirects=False) as client:
            yield cls(app, client, tokens)

    def ask(self, method: str, path: str, who: str | None = "viewer", **more: Any) -> Any:
        """The answer to ``who``; None: to nobody who is logged in."""
        headers = {**({} if who is None else {"Authorization": f"Bearer {self.tokens[who]}"}), **more.pop("headers", {})}
        return self.client.request(method, PREFIX + path, headers=headers, **more)


@dataclass
class Page:
    """What a test asks of the page, and which environments it knows."""

    site: Site
    folder: Path
    patch: pytest.MonkeyPatch

    @classmethod
    @contextmanager
    def opened(cls, site: Site, folder: Path, patch: pytest.MonkeyPatch) -> Iterator[Page]:
        from airflow_provider_schemamig.web import pages, places

        patch.setattr(places, "_SECONDS", 1e-9)  # a connection of this test, at once
        patch.setenv("AIRFLOW__SCHEMAMIG__DEFAULT_ENVIRONMENT", "none_of_this_name")
        found = cls(site, folder, patch)
        try:
            yield found
        finally:
            pages.reader._known.clear()

    def connect(self, name: str, uri: str, **options: str) -> None:
        """Add a connection of type schemamig."""
        extra = {"environment_uri": uri, **({"storage_options": options} if options else {})}
        self.patch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps({"conn_type": "schemamig", "extra": extra}))

    def get(self, path: str, who: str | None = "viewer", **more: Any) -> Any:
        return self.site.ask("GET", path, who, **more)

    def post(self, path: str, body: Any = None, who: str | None = "admin", **more: Any) -> Any:
        return self.site.ask("POST", path, who, json={"reason": "a test"} if body is None else body, **more)

    def document(self, key: str, name: str, **asked: Any) -> Any:
        """A document of an environment, as JSON."""
        answer = self.get(f"/api/env/{key}/{name}", params=asked)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def view(self, path: str, **more: Any) -> str:
        """A view, once what it shows is there."""
        for _ in range(100):
            answer = self.get(path, **more)
            assert answer.status_code == 200, answer.text
            if not any(text in answer.text for text in ("reading the environment", "reading …", "reading anew …")):
                break
        return str(answer.text)
