"""The environment and the release of the running command line, for the commands that its answer names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_GIVEN: ContextVar[tuple[str | None, str | None]] = ContextVar("given", default=(None, None))


def given() -> tuple[str | None, str | None]:
    """Return (environment, release folder) as they have to be typed; None: nobody has to."""
    return _GIVEN.get()


@contextmanager
def giving(options: Mapping[str, Any]) -> Iterator[None]:
    """Run a command with these options. An environment that ``SCHEMAMIG_ENV`` names is not typed."""
    from airflow_provider_schemamig.credentials import blank_typed  # costs more than --help should

    env, release = str(options.get("env") or ""), str(options.get("release") or "DIR")
    is_typed = bool(env) and env != os.environ.get("SCHEMAMIG_ENV")
    token = _GIVEN.set((blank_typed(env) if is_typed else None, blank_typed(release)))
    try:
        yield
    finally:
        _GIVEN.reset(token)
