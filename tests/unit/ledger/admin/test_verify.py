"""Every kind of damage has its finding, and a sound ledger has none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.ledger.admin.findings import REMEDIES
from airflow_provider_schemamig.core.ledger.admin.maintenance import compact
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.codec import RawRow, encode
from airflow_provider_schemamig.core.ledger.errors import FormatStepFailed, LedgerTooNew, NoEnvironment
from airflow_provider_schemamig.core.ledger.rows import (
    ROW_TYPES,
    Approval,
    BuildingShard,
    DeploymentState,
    EnvironmentRelease,
    Hold,
    HoldState,
    LedgerSince,
    Object,
    SchemaEntry,
    Shard,
    ShardState,
)
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import Drop, LedgerReader, LedgerWriter, Put, Update
from airflow_provider_schemamig.core.names import CollectionName, Epoch, Fingerprint, Generation, SchemaId, ShardId, Version
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from tests.support.bytes import tree
from tests.unit.ledger.samples import LOG, NOW, append_raw, collection, compaction, declaration, deployment, element, leader, shard_of

FLIGHTS, SHARD = CollectionName("flights"), shard_of("flights")


def codes(writer: LedgerWriter) -> list[tuple[str, str]]:
    return [(finding.code, finding.where) for finding in verify(LedgerReader(writer.env))]


def object_(now: State, /, **changes: object) -> Put:
    return Put(replace(now.objects[FLIGHTS], **changes))  # type: ignore[arg-type]


def schema(now: State, /, **changes: object) -> Put:
    return Put(replace(now.schemas[FLIGHTS, SchemaId(1)], **changes))  # type: ignore[arg-type]


def shard(now: State, /, **changes: object) -> Put:
    return Put(replace(now.shards[SHARD], **changes))  # type: ignore[arg-type]


def put(*rows: object) -> Callable[[State], list[Update]]:
    return lambda state: [Put(row) for row in rows]


INTENT = compaction(FLIGHTS, SHARD, Generation(1), Epoch(1))
X = Shard(ShardId("g1-ffffffffffff"), FLIGHTS, "flights/g1-ffffffffffff", "id of x", Generation(1), ShardState.BUILDING)
TO_X = BuildingShard(FLIGHTS, Version(1, 1, 0), Generation(1), X.shard)
TO_Y = replace(TO_X, version=Version(1, 2, 0), shard=ShardId("y"))
HOLD = Hold(Generation(2), Version(1, 0, 0), Version(1, 1, 0), NOW, HoldState.OPEN)

#: Appended through the front door: each row is well-formed, together they do not agree. Rule -> what breaks it, and it alone; where.
UNSOUND: dict[str, tuple[Callable[[State], list[Update]], str]] = {
    "shard_not_live": (lambda s: [shard(s, collection=CollectionName("planes"))], 'objects "flights"'),
    "shard_not_live, retired": (lambda s: [shard(s, state=ShardState.RETIRED, retired_by=Generation(1))], 'objects "flights"'),
    "shard_not_live, missing": (lambda s: [Drop(Shard, SHARD)], 'objects "flights"'),
    "schema_missing": (lambda s: [Drop(SchemaEntry, "flights/1")], 'objects "flights"'),
    "schema_of_other_shard": (lambda s: [schema(s, shard=shard_of("planes"))], 'objects "flights"'),
    "wrong_fingerprint": (lambda s: [schema(s, declared=declaration("flights", "id", "extra"))], 'objects "flights"'),
    "no_release": (lambda s: [Drop(EnvironmentRelease, "release")], 'config "release"'),
    "wrong_set_fingerprint": (put(EnvironmentRelease("lake", Version(1, 0, 0), Fingerprint("sf1:0"))), 'config "release"'),
    "leader_unknown": (put(leader(2, 2)), 'leader "leader"'),
    "leader_not_promoted": (put(leader(2, 2), deployment(2)), 'leader "leader"'),
    "went_backwards": (put(leader(1, 0)), 'leader "leader"'),
    "went_backwards, generation": (put(leader(0, 2), replace(deployment(0), state=DeploymentState.COMMITTED)), 'leader "leader"'),
    "wrong_since": (put(LedgerSince(1)), 'config "since"'),
    "intent_ahead": (put(replace(INTENT, epoch=Epoch(2))), f'intents "{SHARD}/compact/1"'),
    "intent_ahead, generation": (put(replace(INTENT, generation=Generation(2))), f'intents "{SHARD}/compact/2"'),
    "intent_without_shard": (put(replace(INTENT, shard=ShardId("x"))), 'intents "x/compact/1"'),
    "element_without_shard": (put(element(shard="x")), f'elements "{element().key}"'),
    "generation_unknown": (put(replace(X, generation=Generation(9)), TO_X), 'shards "g1-ffffffffffff"'),
    "generation_unknown, replacement": (put(replace(TO_X, generation=Generation(9), shard=SHARD)), 'replacements "flights/1.1.0/9"'),
    "generation_unknown, approval": (put(Approval(Generation(9), "d" * 64, "ann", NOW)), 'approvals "9"'),
    "generation_unknown, hold": (put(replace(HOLD, generation=Generation(9))), 'holds "9"'),
    "hold_without_commit": (put(deployment(2), HOLD), 'holds "2"'),
    "replacement_without_shard": (put(deployment(2), replace(TO_X, generation=Generation(2))), 'replacements "flights/1.1.0/2"'),
    "shared_uri": (put(replace(X, uri=f"flights/{SHARD}"), TO_X), 'shards "g1-ffffffffffff"'),
    "shared_uri, adopted": (
        put(replace(X, uri="s3://b/t", adopted=True), replace(X, shard=ShardId("y"), uri="s3://b/t"), TO_X, TO_Y),
        'shards "y"',
    ),
    "unusable_uri": (lambda s: [shard(s, uri="../elsewhere")], f'shards "{SHARD}"'),
    "unusable_uri, elsewhere": (lambda s: [shard(s, uri="file:///elsewhere")], f'shards "{SHARD}"'),
    "unusable_uri, not named by us": (put(replace(X, uri="flights/all"), TO_X), 'shards "g1-ffffffffffff"'),
    "unusable_uri, named for another shard": (put(replace(X, uri="flights/g1-fffffffffffe"), TO_X), 'shards "g1-ffffffffffff"'),
    "unusable_uri, the system folder": (put(replace(X, uri=f"_schemamig/{X.shard}"), TO_X), 'shards "g1-ffffffffffff"'),
    "orphan_shard": (put(replace(X, state=ShardState.LIVE)), 'shards "g1-ffffffffffff"'),
    "orphan_shard, being built": (put(X), 'shards "g1-ffffffffffff"'),
    "orphan_shard, retired by nobody": (put(replace(X, state=ShardState.RETIRED)), 'shards "g1-ffffffffffff"'),
    "orphan_shard, its hold is over": (
        put(
            replace(X, state=ShardState.RETIRED, retired_by=Generation(2)),
            replace(deployment(2), state=DeploymentState.COMMITTED),
            replace(HOLD, state=HoldState.CLOSED),
        ),
        'shards "g1-ffffffffffff"',
    ),
}


@pytest.mark.parametrize(("rule", "updates", "where"), [(rule, *case) for rule, case in UNSOUND.items()], ids=UNSOUND)
def test_a_ledger_that_breaks_one_rule_has_that_finding_alone(
    sound: LedgerWriter, rule: str, updates: Callable[[State], list[Update]], where: str
) -> None:
    assert codes(sound) == []
    sound.transact(updates)
    assert codes(sound) == [(rule.split(",", maxsplit=1)[0], where)]


@pytest.mark.parametrize("over", [DeploymentState.ROLLED_BACK, DeploymentState.CANCELLED])
def test_a_shard_of_a_generation_that_is_over_names_the_command_that_deletes_it(sound: LedgerWriter, over: DeploymentState) -> None:
    way = "; `schemamig cancel --generation 2` deletes it"
    sound.transact(put(replace(X, generation=Generation(2)), replace(deployment(2), state=over)))
    assert [finding.text for finding in verify(LedgerReader(sound.env))] == [f"building at {X.uri}, and nothing points to it{way}"]
    sound.transact(put(deployment(2)))
    assert [way in finding.text for finding in verify(LedgerReader(sound.env))] == [False]


def test_an_object_whose_fingerprint_was_changed_takes_the_release_with_it(sound: LedgerWriter) -> None:
    sound.transact(lambda s: [object_(s, fingerprint=Fingerprint("sf1:0"))])
    assert codes(sound) == [("wrong_fingerprint", 'objects "flights"'), ("wrong_set_fingerprint", 'config "release"')]


SOUND: dict[str, list[Update]] = {
    "a shard being built for a replacement": [Put(X), Put(TO_X)],
    "a shard being built under an open intent": [Put(X), Put(replace(INTENT, shard=X.shard))],
    "a retired shard with a way back": [
        Put(replace(X, state=ShardState.RETIRED, retired_by=Generation(2))),
        Put(replace(deployment(2), state=DeploymentState.COMMITTED)),
        Put(HOLD),
    ],
    "a shard that its own rollback took back": [Put(replace(X, state=ShardState.RETIRED, retired_by=Generation(1)))],
    "the next epoch": [Put(leader(2, 2)), Put(replace(deployment(2), state=DeploymentState.PROMOTED))],
    "a replacement of a deployment that is over": [Put(TO_X)],
    "an element of a live table": [Put(element())],
    "a hold that is over": [Put(deployment(2)), Put(replace(HOLD, state=HoldState.CLOSED))],
    "a table adopted twice": [
        Put(replace(X, uri="s3://b/t", adopted=True)),
        Put(TO_X),
        Put(replace(X, shard=ShardId("y"), uri="s3://b/t", adopted=True, state=ShardState.RETIRED, retired_by=Generation(1))),
    ],
}


@pytest.mark.parametrize("updates", SOUND.values(), ids=SOUND.keys())
def test_ledger_verify_what_is_normal_has_no_finding(sound: LedgerWriter, updates: list[Update]) -> None:
    sound.transact(lambda state: updates)
    assert codes(sound) == []
    compact(sound)
    assert codes(sound) == []


_, KEY, VALUE = encode(next(update.row for update in collection("flights") if isinstance(update, Put) and isinstance(update.row, Object)))
APPROVAL = encode(Approval(Generation(1), "d", "ann", NOW))[2]
OTHER = VALUE.replace('"schema_id":1', '"schema_id":2')

#: Written past the front door.
DAMAGE: dict[str, tuple[list[RawRow], list[tuple[str, str]]]] = {
    "negative_multiplicity": ([RawRow("unheard_of", '"x"', "{}", 2, -1)], [("negative_multiplicity", 'unheard_of "x"')]),
    "doubled": ([RawRow("objects", KEY, VALUE, 2, 1)], [("doubled", 'objects "flights"')]),
    "two_values": ([RawRow("objects", KEY, OTHER, 2, 1)], [("two_values", 'objects "flights"')]),
    "unreadable_row": ([RawRow("holds", '"1"', "{", 2, 1)], [("unreadable_row", 'holds "1"')]),
    "unreadable_row, of another shape": ([RawRow("holds", '"1"', '{"zork":1}', 2, 1)], [("unreadable_row", 'holds "1"')]),
    "unreadable_row, no time": ([RawRow("approvals", '"1"', APPROVAL.replace("2026", "x"), 2, 1)], [("unreadable_row", 'approvals "1"')]),
    "unreadable_row, of another key": ([RawRow("objects", '"x"', VALUE, 2, 1)], [("unreadable_row", 'objects "x"')]),
    "wrong_time": ([RawRow("unheard_of", '"x"', "{}", 3, 1)], [("wrong_time", 'unheard_of "x"')]),
    "wrong_time, no difference": ([RawRow("unheard_of", '"x"', "{}", 2, 0)], [("wrong_time", 'unheard_of "x"')]),
    "config": ([RawRow("config", '"release"', "{", 2, 1)], [("two_values", 'config "release"'), ("unreadable_row", 'config "release"')]),
}


@pytest.mark.parametrize(("rows", "expected"), DAMAGE.values(), ids=DAMAGE.keys())
def test_verify_damaged_rows(sound: LedgerWriter, rows: list[RawRow], expected: list[tuple[str, str]]) -> None:
    append_raw(sound.env, *rows)
    assert codes(sound) == expected


def test_no_config_row(sound: LedgerWriter) -> None:
    key = '"environment"'
    stored = sound.state().stored("config", key)
    assert stored is not None
    append_raw(sound.env, RawRow("config", key, stored, 2, -1))
    assert [code for code, _ in codes(sound)] == ["no_config"]


def test_a_step_of_the_format_that_fails_is_a_finding(sound: LedgerWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(state: State) -> None:
        raise FormatStepFailed(source=1, target=2, reason="it forgot its work")

    monkeypatch.setattr(State, "config", property(fail))
    assert codes(sound) == [("format_step_failed", "format 1")]


def test_every_code_has_a_ledger_that_breaks_its_rule_alone() -> None:
    """The others are broken below and in test_verify_tables, each by a test of its own."""
    alone = {rule.split(",")[0] for rule in [*UNSOUND, *DAMAGE]} - {"config"}
    files = {"unreadable_log", "log_gap", "data_missing", "unreadable_data", "no_config", "format_step_failed"}
    tables = {"table_missing", "fence_ahead", "seal_unknown", "orphan_folder", "plan_missing"}
    assert alone | files | tables == set(REMEDIES)


def test_a_finding_says_what_to_do(sound: LedgerWriter) -> None:
    append_raw(sound.env, RawRow("holds", '"1"', "{", 2, 1))
    (found,) = verify(LedgerReader(sound.env))
    assert found.to_json() == {
        "code": "unreadable_row",
        "where": 'holds "1"',
        "collection": "holds",
        "key": '"1"',
        "text": found.text,
        "next": REMEDIES["unreadable_row"],
    }
    assert all(remedy[0].isupper() and remedy.endswith(".") for remedy in REMEDIES.values())


def test_damage_in_one_place_does_not_hide_damage_in_another(sound: LedgerWriter) -> None:
    sound.transact(lambda state: [Put(leader(1, 0))])
    append_raw(sound.env, RawRow("holds", '"1"', "{", 3, 1))
    assert codes(sound) == [("unreadable_row", 'holds "1"'), ("went_backwards", 'leader "leader"')]


def ledger_folder(env: EnvironmentRoot) -> Path:
    path = env.location.local_path
    assert path is not None
    return path / "_schemamig" / "ledger"


@pytest.mark.parametrize("content", [b"", b"\x00" * 200, b'{"commitInfo":'], ids=["empty", "zeros", "cut"])
def test_a_damaged_log(sound: LedgerWriter, content: bytes) -> None:
    name = f"{1:020}.json"
    (ledger_folder(sound.env) / "_delta_log" / name).write_bytes(content)
    found = codes(sound)
    assert [code for code, _ in found] == ["unreadable_log"]
    assert found[0][1].startswith(LOG)


def test_a_hole_in_the_log(sound: LedgerWriter) -> None:
    sound.transact(lambda state: [Put(leader(1, 2))])
    (ledger_folder(sound.env) / "_delta_log" / f"{1:020}.json").unlink()
    assert codes(sound) == [("log_gap", LOG)]


@pytest.mark.parametrize("damage", ["cut", "gone", "flipped"])
def test_a_damaged_data_file_is_named(sound: LedgerWriter, damage: str) -> None:
    path = max(ledger_folder(sound.env).glob("*.parquet"), key=lambda path: path.stat().st_size)
    content = path.read_bytes()
    match damage:
        case "cut":
            path.write_bytes(content[:100])
        case "gone":
            path.unlink()
        case _:
            path.write_bytes(content[:-60] + b"\xff" * 40 + content[-20:])
    expected = "data_missing" if damage == "gone" else "unreadable_data"
    assert codes(sound) == [(expected, f"_schemamig/ledger/{path.name}")]


def test_verify_writes_nothing_on_damage_either(sound: LedgerWriter, tmp_path: Path) -> None:
    append_raw(sound.env, RawRow("holds", '"1"', "{", 2, 1))
    before = tree(tmp_path)
    assert len(verify(LedgerReader(sound.env))) == 1
    assert tree(tmp_path) == before


def test_missing_and_too_new_are_no_damage(env: EnvironmentRoot, sound: LedgerWriter) -> None:
    with pytest.raises(NoEnvironment):
        verify(LedgerReader(EnvironmentRoot.open(str(env.location.local_path) + "-nowhere")))
    key = '"environment"'
    stored = sound.state().stored("config", key)
    assert stored is not None
    newer = json.dumps(json.loads(stored) | {"format_version": 7})
    append_raw(sound.env, RawRow("config", key, stored, 2, -1), RawRow("config", key, newer, 2, 1), RawRow("objects", '"x"', "{", 2, 1))
    with pytest.raises(LedgerTooNew):
        verify(LedgerReader(sound.env))


def test_the_docs_have_every_code_and_collection() -> None:
    text = (Path(__file__).parents[4] / "docs" / "ledger.md").read_text()
    codes, collections = (re.findall(r"^\| `(\w+)`", part, re.MULTILINE) for part in reversed(text.split("## Findings")))
    assert codes == list(REMEDIES)
    assert set(collections) == {row_type.COLLECTION for row_type in ROW_TYPES}
