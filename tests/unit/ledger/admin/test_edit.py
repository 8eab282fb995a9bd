"""One row by hand: what is written, what is refused, who is in the way, and what a kill or a race leaves."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.ledger.admin.edit import Edited, RowEdit, edit_row
from airflow_provider_schemamig.core.ledger.admin.edit_errors import (
    EditUnsound,
    InvalidRow,
    LooksAlive,
    NotAudited,
    RowChanged,
    RowProtected,
    UnknownRow,
)
from airflow_provider_schemamig.core.ledger.admin.maintenance import compact
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.codec import RawRow, encode
from airflow_provider_schemamig.core.ledger.errors import (
    LedgerCompacted,
    LedgerTooNew,
    LedgerVersionUnknown,
    NoEnvironment,
)
from airflow_provider_schemamig.core.ledger.history import read_history
from airflow_provider_schemamig.core.ledger.rows import (
    Control,
)
from airflow_provider_schemamig.core.ledger.store import LedgerReader, LedgerWriter, Put, Update
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.exceptions import Refusal, Refused
from tests.support.bytes import tree
from tests.unit.ledger.admin.edits import LATER, PAUSE, PAUSED, edit, stored
from tests.unit.ledger.format.synthetic.lakes import OLDER, older_known, unpack
from tests.unit.ledger.samples import append_raw, deployment, leader, shard_of

# --- what is written -----------------------------------------------------------------------------------------------------------------


def test_insert_replace_delete(sound: LedgerWriter) -> None:
    done = edit(sound, PAUSE)
    assert done == Edited(2, "pauses", '"flights"', (), PAUSED, changed=True)
    done = edit(sound, replace(PAUSE, key='"flights"', value=' {"scope": "flights",\n "paused": false, "max_files": 8}'))
    assert (done.before, done.after) == ((PAUSED,), '{"max_files":8,"scope":"flights"}'), "as the software itself writes it"
    assert LedgerReader(sound.env).state().controls["flights"] == Control("flights", max_files=8)
    done = edit(sound, replace(PAUSE, value=None))
    assert (done.version, done.before, done.after) == (4, ('{"max_files":8,"scope":"flights"}',), None)
    assert stored(sound, "pauses", '"flights"') is None
    assert [(row.ts, row.diff) for row in sound.rows() if row.collection == "pauses"] == [(2, 1), (3, -1), (3, 1), (4, -1)]
    assert verify(sound) == ()


def test_again_changes_nothing(sound: LedgerWriter, tmp_path: Path) -> None:
    edit(sound, PAUSE)
    before = tree(tmp_path)
    assert edit(sound, PAUSE) == Edited(2, "pauses", '"flights"', (PAUSED,), PAUSED, changed=False)
    assert not edit(sound, replace(PAUSE, key="planes", value=None)).changed
    assert tree(tmp_path) == before


def test_the_audit_log_has_who_what_before_and_after(sound: LedgerWriter) -> None:
    edit(sound, PAUSE)
    edit(sound, replace(PAUSE, value=None))
    found = read_history(sound.env)
    assert [(entry.who, entry.what, entry.outcome) for entry in found] == [
        ("ann", "ledger edit", "begun"),
        ("ann", "ledger edit", "done"),
        ("ann", "ledger delete", "begun"),
        ("ann", "ledger delete", "done"),
    ]
    detail = {"collection": "pauses", "key": '"flights"', "before": [PAUSED], "after": None, "onto_version": 2, "forced_over": []}
    assert json.loads(found[-1].detail) == detail


# --- what is refused, forced or not --------------------------------------------------------------------------------------------------

CONFIG = '{"created_at":"2026-03-01T12:30:15+00:00","env_id":"other","format_version":1}'
REFUSED: dict[str, tuple[RowEdit, type[Refusal]]] = {
    "unknown collection": (RowEdit("object", "flights", "{}"), UnknownRow),
    "unknown key of config": (RowEdit("config", "colour", "{}"), UnknownRow),
    "not JSON": (replace(PAUSE, value="{"), InvalidRow),
    "no object": (replace(PAUSE, value="[]"), InvalidRow),
    "another shape": (replace(PAUSE, value='{"zork":1}'), InvalidRow),
    "another type": (replace(PAUSE, value='{"paused":"yes","scope":"flights"}'), InvalidRow),
    "of another key": (replace(PAUSE, value='{"paused":true,"scope":"planes"}'), InvalidRow),
    "half a character": (replace(PAUSE, key="x", value='{"paused":true,"scope":"\\ud800"}'), InvalidRow),
    "half a character in a field": (
        RowEdit("approvals", "1", '{"approved_at":"2026-03-01","approved_by":"\\ud800","generation":1,"plan_digest":"d"}'),
        InvalidRow,
    ),
    "too deep": (replace(PAUSE, value="[" * 100_000), InvalidRow),
    "a time that is none": (RowEdit("leader", "leader", '{"epoch":2,"generation":1,"since":"99999999999999"}'), InvalidRow),
    "a credential": (replace(PAUSE, key="s3cretS3cret", value='{"paused":true,"scope":"s3cretS3cret"}'), InvalidRow),
    "who the environment is": (RowEdit("config", "environment", CONFIG), RowProtected),
    "the environment without a name": (RowEdit("config", "environment", None), RowProtected),
    "a version not there yet": (replace(PAUSE, expect=9), LedgerVersionUnknown),
}


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(("wanted", "error"), REFUSED.values(), ids=REFUSED)
def test_refused_forced_or_not_and_nothing_written(
    sound: LedgerWriter, tmp_path: Path, wanted: RowEdit, error: type[Refusal], force: bool
) -> None:
    env = EnvironmentRoot.open(sound.env.location.uri, {"aws_secret_access_key": "s3cretS3cret"})
    before = tree(tmp_path)
    with pytest.raises(error):
        edit_row(env, replace(wanted, force=force), "ann", LATER)
    assert tree(tmp_path) == before


def test_a_row_of_an_unknown_collection_goes_by_force_only(sound: LedgerWriter) -> None:
    append_raw(sound.env, RawRow("unheard_of", "not a key", "anything", 2, 1))
    wanted = RowEdit("unheard_of", "not a key", None)
    with pytest.raises(UnknownRow):
        edit(sound, wanted)
    assert edit(sound, replace(wanted, force=True)).before == ("anything",)
    assert "unheard_of" not in {row.collection for row in compact_rows(sound)}


def compact_rows(writer: LedgerWriter) -> tuple[RawRow, ...]:
    compact(writer)
    return writer.rows()


def test_the_environment_is_named_again_where_its_row_is_lost(sound: LedgerWriter) -> None:
    key, lost = '"environment"', stored(sound, "config", '"environment"')
    assert lost is not None
    append_raw(sound.env, RawRow("config", key, lost, 2, -1))
    with pytest.raises(RowProtected):
        edit(sound, RowEdit("config", "environment", CONFIG.replace('"format_version":1', '"format_version":9')))
    assert edit(sound, RowEdit("config", "environment", lost)).before == ()
    assert verify(LedgerReader(sound.env)) == ()


def test_no_ledger_and_one_of_a_newer_format(sound: LedgerWriter, tmp_path: Path) -> None:
    with pytest.raises(NoEnvironment):
        edit_row(EnvironmentRoot.open(str(tmp_path / "nowhere")), PAUSE, "ann")
    key, config = '"environment"', stored(sound, "config", '"environment"')
    assert config is not None
    newer = json.dumps({**json.loads(config), "format_version": 99}, separators=(",", ":"), sort_keys=True)
    append_raw(sound.env, RawRow("config", key, config, 2, -1), RawRow("config", key, newer, 2, 1))
    before = tree(tmp_path)
    with pytest.raises(LedgerTooNew):
        edit(sound, replace(PAUSE, force=True))
    assert tree(tmp_path) == before


def test_a_ledger_of_an_older_format_is_edited_in_that_format(tmp_path: Path) -> None:
    """Or what is damaged in it would keep it from ever being upgraded."""
    unpack(OLDER, tmp_path / "old", tmp_path / "made")
    with older_known():
        _edit_all(tmp_path / "old")


def _edit_all(tmp_path: Path) -> None:
    env = EnvironmentRoot.open(str(tmp_path / "lake"))
    raw = LedgerReader(env).state().raw
    before = tree(tmp_path)
    for collection, texts in raw.items():
        for key, text in texts.items():
            assert not edit_row(env, RowEdit(collection, key, text), "ann").changed, "each is written as it was"
    with pytest.raises(InvalidRow):  # a time is held to be one, whatever the format's frozen copy says
        edit_row(env, RowEdit("leader", "leader", '{"epoch":9,"generation":2,"since":"x"}', force=True), "ann")
    assert tree(tmp_path) == before
    key, text = next(iter(raw["objects"].items()))
    ts = LedgerReader(env).state().version + 1
    append_raw(env, RawRow("objects", key, text, ts, -1), RawRow("objects", key, "{", ts, 1))
    assert edit_row(env, RowEdit("objects", key, text, force=True), "ann").after == text
    assert verify(LedgerReader(env)) == ()


# --- what was looked at --------------------------------------------------------------------------------------------------------------


def test_ledger_edit_only_what_was_looked_at_is_replaced(sound: LedgerWriter, tmp_path: Path) -> None:
    edit(sound, PAUSE)
    seen = sound.state().version
    sound.transact(lambda state: [Put(Control("planes", paused=True))])
    assert edit(sound, replace(PAUSE, value='{"scope":"flights"}', expect=seen)).changed, "another row is none of its business"
    before = tree(tmp_path)
    with pytest.raises(RowChanged) as caught:
        edit(sound, replace(PAUSE, value=None, expect=seen, force=True))
    assert (caught.value.seen, caught.value.found) == (PAUSED, '{"scope":"flights"}')
    with pytest.raises(RowChanged):
        edit(sound, replace(PAUSE, value=None, expect=0))
    assert not edit(sound, replace(PAUSE, value='{"scope":"flights"}', expect=seen)).changed, "in place already comes first"
    assert tree(tmp_path) == before
    compact(sound)
    with pytest.raises(LedgerCompacted):
        edit(sound, replace(PAUSE, value=None, expect=seen))


# --- what verify says ----------------------------------------------------------------------------------------------------------------


def test_an_edit_may_not_make_the_ledger_less_sound(sound: LedgerWriter, tmp_path: Path) -> None:
    before, wanted = tree(tmp_path), RowEdit("leader", "leader", encode(leader(1, 0))[2])
    with pytest.raises(EditUnsound) as caught:
        edit(sound, wanted)
    assert [finding.code for finding in caught.value.findings] == ["went_backwards"]
    with pytest.raises(EditUnsound):
        edit(sound, RowEdit("shards", shard_of("flights"), None))
    assert tree(tmp_path) == before
    done = edit(sound, replace(wanted, force=True))
    assert [finding.code for finding in done.findings] == ["went_backwards"]
    assert edit(sound, PAUSE).changed, "what was wrong before is no reason against another row"


def test_all_reasons_at_once(sound: LedgerWriter) -> None:
    sound.transact(lambda state: [Put(replace(deployment(2), created_at=LATER))])
    with pytest.raises(Refused) as caught:
        edit(sound, RowEdit("shards", shard_of("flights"), None))
    assert [type(reason) for reason in caught.value.refusals] == [LooksAlive, EditUnsound]


KEY = '"flights"'

#: Written past the front door; what an edit of the row with the right value makes of it is a sound ledger.
DAMAGED: dict[str, Callable[[str], list[RawRow]]] = {
    "doubled": lambda right: [RawRow("objects", KEY, right, 2, 1)],
    "many times": lambda right: [RawRow("objects", KEY, right, 2, 2**63 - 1), RawRow("objects", KEY, right, 2, 2**63 - 1)],
    "negative": lambda right: [RawRow("objects", KEY, right, 2, -3)],
    "two values": lambda right: [RawRow("objects", KEY, right.replace(":1,", ":2,"), 2, 1)],
    "unreadable": lambda right: [RawRow("objects", KEY, right, 2, -1), RawRow("objects", KEY, "{", 2, 1)],
    "unreadable and negative": lambda right: [RawRow("objects", KEY, "{", 2, -1)],
    "gone": lambda right: [RawRow("objects", KEY, right, 2, -1)],
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_row_is_repaired(sound: LedgerWriter, damage: Callable[[str], list[RawRow]]) -> None:
    right = stored(sound, "objects", KEY)
    assert right is not None
    append_raw(sound.env, *damage(right))
    assert verify(LedgerReader(sound.env))
    assert edit(sound, RowEdit("objects", "flights", right)).after == right
    assert verify(LedgerReader(sound.env)) == ()
    assert stored(sound, "objects", KEY) == right
    compact(LedgerWriter(sound.env))
    assert verify(LedgerReader(sound.env)) == ()


def test_a_damaged_config_is_repaired(sound: LedgerWriter) -> None:
    right = stored(sound, "config", '"release"')
    append_raw(sound.env, RawRow("config", '"release"', "{", 2, 1))
    done = edit(sound, RowEdit("config", "release", right))
    assert sorted(done.before) == sorted(["{", right or ""])
    assert verify(LedgerReader(sound.env)) == ()


# --- races and kills -----------------------------------------------------------------------------------------------------------------


def observed(env: EnvironmentRoot, at: tuple[str, str], act: Callable[[], object]) -> EnvironmentRoot:
    """``act`` happens once, at the first such moment of a write."""
    pending = [act]

    def hook(moment: str, what: str, key: str) -> None:
        if (moment, what) == at and pending:
            pending.pop()()

    return EnvironmentRoot(env.location, env.options, on_write=hook)


def race(sound: LedgerWriter, wanted: RowEdit, *updates: Update) -> Edited:
    """Somebody appends ``updates`` after all was checked, just before the edit is sent."""
    other = LedgerWriter(sound.env)
    state = other.state()
    env = observed(sound.env, ("before", "ledger"), lambda: other.compare_and_append(state, updates))
    return edit_row(env, wanted, "ann", LATER)


def test_another_row_may_change_meanwhile(sound: LedgerWriter) -> None:
    done = race(sound, PAUSE, Put(Control("planes", paused=True)))
    assert (done.version, done.changed) == (3, True)
    assert LedgerReader(sound.env).state().controls.keys() == {"flights", "planes"}
    assert [entry.outcome for entry in read_history(sound.env)] == ["begun", "done"]


def test_the_row_itself_may_not(sound: LedgerWriter) -> None:
    with pytest.raises(RowChanged) as caught:
        race(sound, replace(PAUSE, force=True), Put(Control("flights", max_files=1)))
    assert (caught.value.seen, caught.value.found) == (None, '{"max_files":1,"scope":"flights"}')
    assert LedgerReader(sound.env).state().controls["flights"] == Control("flights", max_files=1)
    assert [entry.outcome for entry in read_history(sound.env)] == ["begun", "row_changed"]


def test_somebody_else_may_do_the_same(sound: LedgerWriter) -> None:
    assert not race(sound, PAUSE, Put(Control("flights", paused=True))).changed


def test_ledger_edit_who_begins_to_work_meanwhile_is_seen(sound: LedgerWriter) -> None:
    with pytest.raises(LooksAlive):
        race(sound, PAUSE, Put(replace(deployment(2), created_at=LATER)))
    assert stored(sound, "pauses", '"flights"') is None


class Killed(BaseException):
    pass


def kill() -> None:
    raise Killed


@pytest.mark.parametrize("what", ["ledger", "history"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_at_any_write_it_is_done_or_not_begun(sound: LedgerWriter, moment: str, what: str) -> None:
    edit(sound, PAUSE)
    with pytest.raises(Killed):
        edit_row(observed(sound.env, (moment, what), kill), replace(PAUSE, value=None), "ann", LATER)
    assert (stored(sound, "pauses", '"flights"') is None) == ((moment, what) == ("after", "ledger"))
    if (moment, what) != ("before", "history"):
        assert read_history(sound.env)[-1].outcome == "begun", "a kill cannot hide it"
    assert verify(LedgerReader(sound.env)) == ()
    edit(sound, replace(PAUSE, value=None))
    assert stored(sound, "pauses", '"flights"') is None


def lose_the_answer() -> None:
    raise OSError("connection reset")


def test_a_lost_answer_is_looked_up(sound: LedgerWriter) -> None:
    env = observed(sound.env, ("after", "ledger"), lose_the_answer)
    assert edit_row(env, PAUSE, "ann", LATER).changed
    assert [row.diff for row in sound.rows() if row.collection == "pauses"] == [1]


def test_ledger_edit_nothing_is_done_that_cannot_be_audited(sound: LedgerWriter) -> None:
    edit(sound, PAUSE)
    root = sound.env.location.local_path
    assert root is not None
    for path in (root / "_schemamig" / "history" / "_delta_log").iterdir():
        path.write_bytes(b"garbage")
    with pytest.raises(NotAudited, match="audit log"):
        edit(sound, replace(PAUSE, value=None))
    assert stored(sound, "pauses", '"flights"') == PAUSED
    done = edit(sound, replace(PAUSE, value=None, force=True))
    assert done.changed
    assert len(done.notes) == 1
    assert "audit log" in done.notes[0]


def test_credentials_go_into_no_audit_log(sound: LedgerWriter) -> None:
    secret = "s3cretS3cret"
    sound.transact(lambda state: [Put(Control(secret, paused=True))])  # before anybody looked
    env = EnvironmentRoot.open(sound.env.location.uri, {"aws_secret_access_key": secret, "schemamig.conditional_log_store": "true"})
    edit_row(env, RowEdit("pauses", secret, None), "ann", LATER)
    details = [entry.detail for entry in read_history(env)]
    assert details
    assert not any(secret in detail for detail in details)
    assert all("true" in detail for detail in details), "other options are none"
