"""Requests to an object store, counted: on ``memory://``, where each costs nothing, so that their number is all that is measured."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.storage.objects import ObjectStore
from airflow_provider_schemamig.core.upgrade.prepare.fill import without_spark
from tests.support.product import Product


@dataclass
class Count:
    """``one_by_one``: those that were made in the calling thread, so none beside another."""

    all: int = 0
    one_by_one: int = 0


class Lake:
    """An environment on a store in memory, with ``tables`` tables, and releases for it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, tables: int) -> None:
        self.tables = tables
        self.uri = f"memory://b{uuid.uuid4().hex}/lake"
        self._product = Product(folder / "product")
        self._monkeypatch = monkeypatch

    @property
    def env(self) -> Environment:
        """The environment as a process finds it that begins."""
        return Environment.open(self.uri)

    def release(self, version: str, columns: str = "", *, first: int = 0, does: str | None = None) -> Path:
        """Make a release whose tables from number ``first`` on have ``columns`` more; ``does``: the directive of each of its tables."""
        schema = "\n".join(
            f"CREATE TABLE t{n} (id BIGINT NOT NULL, a INT, b STRING, c DOUBLE{columns});" for n in range(first, self.tables)
        )
        named = range(first or self.tables)
        return self._product.release(version, schema, "" if does is None else ", ".join(does.format(f"t{n}") for n in named))

    def upgrade(self, release: Path, **more: Any) -> None:
        commands.upgrade(self.env, release, jobs=without_spark, **more)

    def count(self, act: Callable[[], object]) -> Count:
        with self.counting() as found:
            act()
        return found

    @contextmanager
    def counting(self) -> Iterator[Count]:
        found, lock, caller, once = Count(), threading.Lock(), threading.current_thread(), ObjectStore._once

        def counted(self: ObjectStore, *rest: Any) -> Any:
            with lock:
                found.all += 1
                found.one_by_one += threading.current_thread() is caller
            return once(self, *rest)

        with self._monkeypatch.context() as patched:
            patched.setattr(ObjectStore, "_once", counted)
            yield found
