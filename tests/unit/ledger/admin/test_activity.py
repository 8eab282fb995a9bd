"""Who is in the way of an edit by hand, and how it is said."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.ledger.admin.edit import RowEdit
from airflow_provider_schemamig.core.ledger.admin.edit_errors import (
    LooksAlive,
)
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.codec import RawRow
from airflow_provider_schemamig.core.ledger.history import read_history
from airflow_provider_schemamig.core.ledger.objects.nodes import Node, NodeKind, write_heartbeat
from airflow_provider_schemamig.core.ledger.rows import (
    Approval,
    DeploymentState,
    Hold,
    HoldState,
    Progress,
)
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter, Put
from airflow_provider_schemamig.core.names import CollectionName, Epoch, Fingerprint, Generation, ShardId, Version
from tests.support.bytes import tree
from tests.unit.ledger.admin.edits import LATER, PAUSE, edit
from tests.unit.ledger.samples import NOW, append_raw, compaction, deployment

OPEN = compaction(CollectionName("flights"), ShardId("flights-1"), Generation(1), Epoch(1))
CLAIM = replace(deployment(2), created_at=LATER.subtract(minutes=59))
OLD = deployment(2)
COPY = Progress(CollectionName("flights"), Generation(2), "copy", "files", 1, 2, 10, NOW, LATER.subtract(minutes=1))
HOLD = Hold(Generation(2), Version(1, 0, 0), Version(1, 1, 0), NOW, HoldState.CONTRACTING)
DONE_2 = replace(deployment(2), state=DeploymentState.COMMITTED)

ALIVE: dict[str, tuple[list[object], str]] = {
    "claimed lately": ([CLAIM], "generation 2 is claimed, its last trace is of 2026-03-03 11:31 UTC"),
    "claimed long ago, and copies": ([OLD, COPY], "generation 2 is claimed, its last trace is of 2026-03-03 12:29 UTC"),
    "claimed long ago, approved now": ([OLD, Approval(Generation(2), "d" * 64, "bob", LATER)], "its last trace is of 2026-03-03 12:30"),
    "promoted": ([replace(OLD, state=DeploymentState.PROMOTED)], "generation 2 is promoted and not committed"),
    "a contract": ([DONE_2, HOLD], "the hold of generation 2 is contracting"),
    "a rollback": ([DONE_2, replace(HOLD, state=HoldState.ROLLING_BACK)], "the hold of generation 2 is rolling_back"),
    "an intent": ([OPEN], "the compact of flights by generation 1 is open"),
}
DEAD: dict[str, list[object]] = {
    "claimed long ago": [OLD],
    "cancelled lately": [replace(CLAIM, state=DeploymentState.CANCELLED)],
    "an open hold": [DONE_2, replace(HOLD, state=HoldState.OPEN)],
    "an intent that is done": [OPEN.done(3)],
    "a copy of a deployment that is over": [DONE_2, COPY],
}


@pytest.mark.parametrize(("rows", "sign"), ALIVE.values(), ids=ALIVE)
def test_signs_of_life(sound: LedgerWriter, tmp_path: Path, rows: list[object], sign: str) -> None:
    sound.transact(lambda state: [Put(row) for row in rows])
    before = tree(tmp_path)
    with pytest.raises(LooksAlive) as caught:
        edit(sound, PAUSE)
    assert len(caught.value.signs) == 1
    assert sign in caught.value.signs[0]
    assert sign in str(caught.value)
    assert tree(tmp_path) == before
    done = edit(sound, replace(PAUSE, force=True))
    assert (done.changed, done.signs) == (True, tuple(caught.value.signs))
    assert json.loads(read_history(sound.env)[-1].detail)["forced_over"] == list(done.signs)


@pytest.mark.parametrize("rows", DEAD.values(), ids=DEAD)
def test_no_signs_of_life(sound: LedgerWriter, rows: list[object]) -> None:
    sound.transact(lambda state: [Put(row) for row in rows])
    assert edit(sound, PAUSE).changed


def test_nodes_live_until_their_lease_ends(sound: LedgerWriter) -> None:
    node = Node("etl-1", NodeKind.WRITER, Version(1, 0, 0), Fingerprint("sf1:00"), LATER.add(seconds=1), LATER)
    write_heartbeat(sound.env, node)
    with pytest.raises(LooksAlive, match=r"writer etl-1 of release 1\.0\.0 has a lease until 2026-03-03 12:30 UTC"):
        edit(sound, PAUSE)
    write_heartbeat(sound.env, replace(node, lease_until=LATER))
    assert edit(sound, PAUSE).changed
    sound.env.store().put("_schemamig/nodes/x.json", b"{")
    with pytest.raises(LooksAlive, match=r"nodes/x\.json cannot be read"):
        edit(sound, replace(PAUSE, value=None))


def test_activity_what_cannot_be_read_may_be_alive(sound: LedgerWriter) -> None:
    append_raw(sound.env, RawRow("deploys", '"7"', "{", 2, 1))
    with pytest.raises(LooksAlive, match='deploys "7" cannot be read'):
        edit(sound, PAUSE)
    assert edit(sound, RowEdit("deploys", "7", None, force=True)).changed
    assert verify(LedgerReader(sound.env)) == ()
