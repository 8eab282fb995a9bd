"""What the tests of the upgrade layer have in common: lakes of two releases, and how one is looked at afterwards."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pendulum
import pytest

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.admin.backup import restore
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.objects.nodes import Node, NodeKind, write_heartbeat
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter, Put
from airflow_provider_schemamig.core.names import Fingerprint, Generation, Version
from airflow_provider_schemamig.exceptions import Refused, SchemamigError
from tests.support.lake import Lake, no_spark
from tests.support.product import Product


def releases(folder: Path, *found: tuple[str, str]) -> list[Path]:
    """Release folders 1.0.0, 1.1.0, ... of (schema, steps) each."""
    product = Product(folder / "product")
    return [product.release(f"1.{number}.0", schema, steps) for number, (schema, steps) in enumerate(found)]


def deployed(folder: Path, first: Path, second: Path) -> Lake:
    """A lake that is at ``first`` and may go to ``second``."""
    lake = Lake(Environment.open(str(folder / "lake")), first, second)
    lake.upgrade(first)
    return lake


def two_releases(folder: Path, first: str, second: str, steps: str) -> Lake:
    """A lake that is at the first of two releases: 1.0.0 and 1.1.0."""
    return deployed(folder, *releases(folder, (first, ""), (second, steps)))


def claimed(lake: Lake, release: Path, **options: Any) -> Generation:
    """The generation of a preflight."""
    found = commands.preflight(lake.env, release, jobs=no_spark, **{"create": True, **options}).generation
    assert found is not None
    return found


def promoted(lake: Lake, release: Path, **options: Any) -> Generation:
    generation = claimed(lake, release, **options)
    commands.promote(lake.env, generation)
    return generation


def expanded(lake: Lake, release: Path, **options: Any) -> Generation:
    generation = promoted(lake, release, **options)
    commands.expand(lake.env, generation)
    return generation


def heartbeat(env: Environment, release: str, *, name: str = "dashboard", seconds: int = 60) -> None:
    """A node that works with ``release`` and may be counted on for ``seconds``."""
    now = pendulum.now("UTC")
    write_heartbeat(env, Node(name, NodeKind.READER, Version.parse(release), Fingerprint("sf1:0"), now.add(seconds=seconds), now))


def make_holds_due(lake: Lake) -> None:
    """As if the time of every hold had passed."""
    now = pendulum.now("UTC")
    LedgerWriter(lake.env).transact(lambda state: [Put(replace(hold, until=now)) for hold in state.holds.values()])


def brought_back(lake: Lake, folder: Path) -> tuple[Lake, tuple[str, ...]]:
    """The ledger is lost and restored from ``folder/backup``: the lake as another process opens it, and the restore's notes."""
    root = Path(lake.env.location.local_path or "")
    shutil.move(root / "_schemamig" / "ledger", folder / "lost")
    notes = restore(Environment.open(str(root)), str(folder / "backup")).notes
    return replace(lake, env=Environment.open(str(root))), notes


def whole(lake: Lake) -> None:
    """No drift, no open intent, a sound ledger."""
    drifted = commands.status(lake.env).drifted
    assert drifted == (), drifted
    assert not list(lake.state.intents)
    findings = verify(LedgerReader(lake.env))
    assert findings == (), findings


def same_as_new(lake: Lake, release: Path, folder: Path) -> None:
    """The lake declares what a new environment of ``release`` declares."""
    fresh = Lake(Environment.open(str(folder)), release, release)
    fresh.upgrade(release)
    here = lake.state.release
    assert here is not None and here.is_same(fresh.state.release)
    assert fingerprints(lake) == fingerprints(fresh)


def fingerprints(lake: Lake) -> dict[str, str]:
    return {name: item.fingerprint for name, item in lake.state.objects.items()}


def seen(lake: Lake, collection: str) -> dict[str, Any]:
    """What ``status`` says of a collection."""
    found: dict[str, Any] = commands.status(lake.env).document["collections"][collection]
    return found


@contextlib.contextmanager
def refused(code: str, collection: str | None = None) -> Iterator[list[SchemamigError]]:
    """Exactly one error of this code and collection, alone or among others found together; afterwards it is in the list."""
    wanted: list[SchemamigError] = []
    with pytest.raises(SchemamigError) as caught:
        yield wanted
    every = caught.value.refusals if isinstance(caught.value, Refused) else (caught.value,)
    wanted += [item for item in every if (item.code, item.collection) == (code, collection)]
    assert len(wanted) == 1, f"expected {code} of {collection}, found {[str(item) for item in every]}"
    assert wanted[0].next_action
    assert str(wanted[0]).startswith(f"[{code}]")
