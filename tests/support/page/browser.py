"""A real browser for the tests of the page: the chromium that is on the machine, driven by Playwright, which downloads none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

#: One process for each page, nothing asked for over the network but what a page loads.
SWITCHES = (
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-quic", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--force-color-profile=srgb"),
)


def chromium() -> str:
    """The program. Skips the test where there is none."""
    for name in filter(None, (os.environ.get("CHROMIUM"), "chromium", "chromium-browser", "google-chrome")):
        if found := shutil.which(name):
            return found
    pytest.skip("no chromium here: ops/browser.sh installs it, or CHROMIUM names one")


@contextmanager
def browser() -> Iterator[Browser]:
    path = chromium()
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=list(SWITCHES))
        try:
            yield found
        finally:
            found.close()
