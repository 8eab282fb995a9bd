"""A tab of a real browser on the page of a running Airflow: what a person sees and presses, and what went wrong meanwhile."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, Request, Response

from tests.support.airflow.live import LiveAirflow

IMAGES = Path(__file__).parents[3] / "docs" / "images"


@dataclass
class Tab:
    """``base``: what stands before ``/schemamig``. ``wrong``: messages of the console, failed requests, answers that are errors."""

    page: Page
    base: str
    wrong: list[str] = field(default_factory=list)
    asked: list[tuple[float, str]] = field(default_factory=list)

    def open(self, path: str, wait_for: str = "#live :is(h1, h2)") -> None:
        self.page.goto(f"{self.base}/schemamig{path}")
        self.page.wait_for_selector(wait_for)
        self.until("!document.querySelector('#live').textContent.includes('reading the environment')")

    def picture(self, name: str) -> None:
        IMAGES.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=IMAGES / f"{name}.png")

    def press(self, verb: str, about: str = "", **fields: Any) -> str:
        """Press the button of a verb, fill what it asks for, and confirm; what the page says then."""
        of_table = f"[data-about*='{about}']" if about else ""
        self.page.evaluate("document.querySelector('#told').textContent = ''")
        self.page.locator(f"button[data-verb={verb}]{of_table}").first.click()
        assert about in (self.page.text_content("#ask-title") or ""), "the dialog does not name what it acts on"
        for name, value in {"reason": f"a test of {verb}", **fields}.items():
            box = self.page.locator(f"#ask-fields input[name={name}]")
            box.check() if value is True else box.fill(str(value))
        self.page.click("#ask-yes")
        self.until("document.querySelector('#told').textContent !== '' || !document.querySelector('#ask-failed').hidden")
        assert self.page.locator("#ask-failed").is_hidden(), self.page.locator("#ask-failed").text_content()
        return self.page.locator("#told").text_content() or ""

    def text(self) -> str:
        return self.page.inner_text("#live")

    def sees(self, text: str, seconds: float = 20) -> None:
        """Wait until the page shows it, by itself."""
        self.until(f"document.body.innerText.includes({json.dumps(text)})", seconds)

    def until(self, expression: str, seconds: float = 30) -> None:
        """Wait until it holds. Not by a function in the page: its policy forbids those."""
        ends = time.monotonic() + seconds
        while not self.page.evaluate(expression):
            assert time.monotonic() < ends, (expression, self.text()[:2000])
            self.page.wait_for_timeout(100)


@contextmanager
def tab(browser: Browser, airflow: LiveAirflow, base: str | None = None, **context: Any) -> Iterator[Tab]:
    """Logged in as admin; nothing may go wrong until it is closed."""
    made = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **context})
    page = made.new_page()
    found = Tab(page, base or f"http://127.0.0.1:{airflow.port}")
    page.goto(f"{found.base}/auth/login/")
    page.fill("input[name=username]", "admin")
    page.fill("input[name=password]", airflow.password)
    page.click("button[type=submit]")
    page.wait_for_url(lambda url: "/auth/login" not in url)
    _watch(found)
    try:
        yield found
        assert found.wrong == []
    finally:
        made.close()


def _watch(found: Tab) -> None:
    def answered(response: Response) -> None:
        if response.status >= 400 and "/schemamig" in response.url:
            found.wrong.append(f"{response.status} {response.url}")

    def asked(request: Request) -> None:
        if "/schemamig" in request.url and request.resource_type in ("xhr", "fetch"):
            found.asked.append((time.monotonic(), request.url))

    found.page.on("console", lambda message: found.wrong.append(message.text) if message.type in ("error", "warning") else None)
    found.page.on("pageerror", lambda error: found.wrong.append(str(error)))
    found.page.on("response", answered)
    found.page.on("request", asked)
