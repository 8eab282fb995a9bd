"""Ledgers as nobody wrote them: broken files, rows of anything. Always a typed error or a finding; never a traceback, never a write."""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from airflow_provider_schemamig.core.ledger.admin.backup import backup
from airflow_provider_schemamig.core.ledger.admin.edit import RowEdit, edit_row
from airflow_provider_schemamig.core.ledger.admin.maintenance import compact, dump
from airflow_provider_schemamig.core.ledger.admin.size import size
from airflow_provider_schemamig.core.ledger.admin.verify import verify
from airflow_provider_schemamig.core.ledger.admin.verify_tables import verify_tables
from airflow_provider_schemamig.core.ledger.codec import RawRow
from airflow_provider_schemamig.core.ledger.errors import LedgerDamaged
from airflow_provider_schemamig.core.ledger.objects.nodes import live_nodes
from airflow_provider_schemamig.core.ledger.own_table import OwnTable
from airflow_provider_schemamig.core.ledger.row_files import Column
from airflow_provider_schemamig.core.ledger.store import LedgerReader, Put
from airflow_provider_schemamig.core.ledger.table import FOLDER
from airflow_provider_schemamig.core.storage.root import EnvironmentRoot
from airflow_provider_schemamig.exceptions import SchemamigError
from tests.support.bytes import tree
from tests.unit.ledger.samples import NOW, append_raw, counter, sound_environment

SEED = int(os.environ["SCHEMAMIG_TEST_SEED"])
VIEWS = (
    "deployments",
    "replacements",
    "approvals",
    "objects",
    "shards",
    "schemas",
    "intents",
    "elements",
    "holds",
    "controls",
    "progress",
    "pins",
    "unreleased",
)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with history, a checkpoint, a consolidation and updates after it."""
    folder = tmp_path_factory.mktemp("template") / "lake"
    writer = sound_environment(folder, "flights", "planes")
    for number in range(3):
        writer.transact(lambda state, number=number: [Put(counter(number))])  # type: ignore[misc]
    compact(writer)
    writer.transact(lambda state: [Put(counter(9))])
    return folder


def looks(env: EnvironmentRoot, folder: Path) -> dict[str, Callable[[], object]]:
    """Everything that reads, each with a reader of its own; some of it again through its typed rows."""

    def views() -> None:
        state = LedgerReader(env).state()
        assert state.config.env_id is not None
        assert [state.release, state.leader, state.since]
        for name in VIEWS:
            rows: Mapping[object, object] = getattr(state, name)
            assert len(list(rows.items())) == len(rows)

    return {
        "state": views,
        "as-of": lambda: LedgerReader(env).state(5).raw["objects"],
        "verify": lambda: [finding.to_json() for finding in verify(LedgerReader(env))],
        "verify tables": lambda: verify_tables(LedgerReader(env)),
        "dump": lambda: json.dumps(dump(LedgerReader(env))),
        "dump what stands": lambda: json.dumps(dump(LedgerReader(env), current=True)),
        "size": lambda: size(LedgerReader(env)).to_json(),
        "nodes": lambda: live_nodes(env, NOW),
        "backup": lambda: backup(env, str(folder / "backup")),
        "refused edit": lambda: edit_row(env, RowEdit("config", "environment", None), "ann", NOW),
    }


def refusal_of(work: Callable[[], object]) -> SchemamigError | None:
    """The typed error; any other is a failure."""
    try:
        work()
    except SchemamigError as error:
        return error
    return None


def survives(env: EnvironmentRoot, folder: Path) -> set[str]:
    """What could be looked at."""
    assert env.location.local_path is not None
    before, fine = tree(env.location.local_path), set()
    for name, look in looks(env, folder).items():
        refused = refusal_of(look)
        if refused is None:
            fine.add(name)
        else:
            assert refused.message, name
            assert refused.next_action, name
    assert tree(env.location.local_path) == before
    return fine


# --- files ---------------------------------------------------------------------------------------------------------------------------


def files(env: Path) -> list[Path]:
    return sorted(path for path in (env / "_schemamig").rglob("*") if path.is_file())


def spoil(path: Path, others: list[Path], dice: random.Random) -> str:
    content = path.read_bytes()
    if not content:
        return f"{path.name} is empty already"
    at = dice.randrange(len(content))
    ways: dict[str, Callable[[], object]] = {
        "gone": path.unlink,
        "empty": lambda: path.write_bytes(b""),
        "cut": lambda: path.write_bytes(content[:at]),
        "flipped": lambda: path.write_bytes(content[:at] + bytes([content[at] ^ (1 << dice.randrange(8))]) + content[at + 1 :]),
        "zeros": lambda: path.write_bytes(content[:at] + b"\0" * (len(content) - at)),
        "garbage": lambda: path.write_bytes(dice.randbytes(200)),
        "twice": lambda: path.write_bytes(content + content),
        "another file": lambda: path.write_bytes(dice.choice(others).read_bytes()),
        "deep JSON": lambda: path.write_bytes(b"[" * 100_000),
        "other JSON": lambda: path.write_bytes(dice.choice([b"[]", b"null", b"1", b'"x"', b'{"add":1}', b'{"protocol":{}}', b"{}\n{}"])),
        "a number more": lambda: path.write_bytes(content.replace(b"1", b"9" * 30, 1)),
    }
    way = dice.choice(list(ways))
    ways[way]()
    return f"{path.name} {way}"


def play_files(template: Path, folder: Path, seed: str) -> None:
    dice = random.Random(seed)
    lake = folder / "lake"
    shutil.copytree(template, lake)
    done = [spoil(dice.choice(files(lake)), files(template), dice) for _ in range(dice.choice([1, 1, 1, 2, 5]))]
    print(seed, done)
    survives(EnvironmentRoot.open(str(lake)), folder)
    shutil.rmtree(folder)


@pytest.mark.parametrize("number", range(12))
def test_fuzz_broken_files(template: Path, tmp_path: Path, number: int) -> None:
    play_files(template, tmp_path / "play", f"{SEED}/files/{number}")


@pytest.mark.soak
def test_many_broken_files(template: Path, tmp_path: Path) -> None:
    for number in range(2_000):
        play_files(template, tmp_path / "play", f"{SEED}/many files/{number}")


def test_the_whole_ledger_survives_its_looks(template: Path, tmp_path: Path) -> None:
    """The fuzz looks at something: on a sound ledger all but the edit that is always refused goes through."""
    env = EnvironmentRoot.open(str(template))
    assert set(looks(env, tmp_path)) - survives(env, tmp_path) == {"refused edit"}


TYPES = {"collection": "string", "key": "string", "value": "string", "ts": "long", "diff": "long"}
OTHER_TABLES: dict[str, dict[str, str]] = {
    "ts is text": {**TYPES, "ts": "string"},
    "value is a number": {**TYPES, "value": "long"},
    "no diff": {name: kind for name, kind in TYPES.items() if name != "diff"},
    "all may be NULL": dict.fromkeys(TYPES, ""),
    "another table": {"id": "long"},
}


@pytest.mark.parametrize("types", OTHER_TABLES.values(), ids=OTHER_TABLES)
def test_a_table_of_other_columns(tmp_path: Path, types: dict[str, str]) -> None:
    env = EnvironmentRoot.open(str(tmp_path / "lake"))
    columns = [Column(name, kind or TYPES[name], nullable=not kind) for name, kind in types.items()]  # type: ignore[arg-type]
    rows = [[1 if column.type == "long" else "1" for column in columns], [0 if column.type == "long" else "0" for column in columns]]
    OwnTable(env, FOLDER, columns).create(rows, "x")
    assert survives(env, tmp_path) <= {"verify", "nodes"}
    with pytest.raises(LedgerDamaged, match="no column"):
        LedgerReader(env).state()


# --- rows ----------------------------------------------------------------------------------------------------------------------------

WEIRD: tuple[object, ...] = (
    None, True, -1, 0, 1.5, 10**30, float("inf"), "", "x", "é", "9" * 400, "2026-99-99", "99999999999999", "1.2.3.4", "../x",
    [], [[]], [None], ["ab"], {}, {"a": {}}, {"@": "struct"}, {"@": "nothing"}, "x" * 100_000,
)  # fmt: skip
TEXTS = (
    "",
    "{",
    "null",
    "[]",
    "NaN",
    '"x"',
    "[" * 50_000,
    "9" * 5_000,
    '{"a":1,"a":2}',
    "\u2028",
    '"\\ud800"',
    "{}",
    "é",
    '{"format_version":"2"}',
)


def strange_rows(rows: list[RawRow], dice: random.Random, ts: int) -> Iterator[RawRow]:
    """Stored rows with a value changed somewhere inside, with other text, under other keys, with other numbers."""
    for _ in range(dice.choice([1, 1, 3])):
        row = dice.choice(rows)
        value = dice.choice([row.value, dice.choice(TEXTS), *[changed(row.value, dice)] * 4])
        key = dice.choice([*[row.key] * 6, '"other"', "x", "", "1", '"a/b/c/d"', "[" * 50_000])
        collection = dice.choice([*[row.collection] * 9, "unheard_of", ""])
        if key == row.key and dice.random() < 0.6:
            yield RawRow(row.collection, row.key, row.value, ts, -1)
        yield RawRow(collection, key, value, dice.choice([*[ts] * 8, -1, 2**62]), dice.choice([*[1] * 8, 0, -1, 2, 2**62, -(2**62)]))


def changed(text: str, dice: random.Random) -> str:
    data = json.loads(text)
    place = data
    for _ in range(dice.randrange(6)):
        inner = [item for item in (place.values() if isinstance(place, dict) else place) if isinstance(item, dict | list) and item]
        if not inner:
            break
        place = dice.choice(inner)
    where = dice.choice(list(place) if isinstance(place, dict) else range(len(place)))
    if isinstance(place, dict) and dice.random() < 0.2:
        del place[where]
    elif isinstance(place, dict) and dice.random() < 0.1:
        place["more"] = 1
    else:
        place[where] = dice.choice(WEIRD)
    return json.dumps(data, ensure_ascii=dice.random() < 0.5)


def play_rows(template: Path, folder: Path, seed: str) -> None:
    dice = random.Random(seed)
    lake = folder / "lake"
    shutil.copytree(template, lake)
    env = EnvironmentRoot.open(str(lake))
    reader = LedgerReader(env)
    standing = [row for row in reader.rows() if row.diff == 1]
    append_raw(env, *strange_rows(standing, dice, reader.state().version + 1))
    print(seed)
    survives(env, folder)
    mend(env, reader_texts(template), dice)
    shutil.rmtree(folder)


def reader_texts(template: Path) -> dict[tuple[str, str], str]:
    raw = LedgerReader(EnvironmentRoot.open(str(template))).state().raw
    return {(collection, key): value for collection, texts in raw.items() for key, value in texts.items()}


def mend(env: EnvironmentRoot, right: dict[tuple[str, str], str], dice: random.Random) -> None:
    """By hand, forced: each edit is done or refused in words; a ledger that opens goes on opening."""
    for (collection, key), value in dice.sample(sorted(right.items()), 2):
        opens = can_open(env)
        refusal_of(functools.partial(edit_row, env, RowEdit(collection, key, dice.choice([value, value, None]), force=True), "ann", NOW))
        assert can_open(env) or not opens


def can_open(env: EnvironmentRoot) -> bool:
    """As a new process would: one that knows the ledger reads on from there, and a row of damage may carry an older time."""
    return refusal_of(lambda: LedgerReader(EnvironmentRoot.open(env.location.uri)).state().config) is None


@pytest.mark.parametrize("number", range(12))
def test_fuzz_strange_rows(template: Path, tmp_path: Path, number: int) -> None:
    play_rows(template, tmp_path / "play", f"{SEED}/rows/{number}")


@pytest.mark.soak
def test_many_strange_rows(template: Path, tmp_path: Path) -> None:
    for number in range(2_000):
        play_rows(template, tmp_path / "play", f"{SEED}/many rows/{number}")
