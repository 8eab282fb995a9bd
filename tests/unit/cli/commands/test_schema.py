"""``schemamig schema ...``: documents, exit codes, what a person reads, and that only ``refresh`` writes."""

from __future__ import annotations

import shutil
from io import StringIO
from pathlib import Path
from typing import Any

import pendulum
import pytest
from rich.console import Console, RenderableType

from airflow_provider_schemamig.cli.render.schema import LINES_SHOWN, cluster_view, local_view
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.replication.cluster.registry import NODES, exchange, nodes
from airflow_provider_schemamig.core.replication.cluster.status import cluster_status, schema_status
from airflow_provider_schemamig.core.replication.model import StreamState
from airflow_provider_schemamig.core.replication.stream.stored_state import read_states, write_state
from tests.support.bytes import tree, unwritten
from tests.support.product import Product
from tests.unit.cli.samples import SCHEMA_1, Ran, Run, conforms, refused
from tests.unit.replication.samples import NOW, environment, flowing, hash_of, move, paused, stopped, stream


@pytest.fixture
def west(tmp_path: Path) -> Environment:
    return environment(tmp_path, "west", flights=["id"], planes=["id", "seats"])


@pytest.fixture
def east(tmp_path: Path) -> Environment:
    return environment(tmp_path, "east", flights=["id"], planes=["id", "seats"])


def looked(run: Run, env: Environment, *arguments: str) -> Ran:
    """``schema status`` with and without --json; both exit alike, and write nothing."""
    with unwritten(env):
        shown = run("schema", "status", "--env", env.location.uri, *arguments)
        ran = run("schema", "status", "--env", env.location.uri, *arguments, "--json")
    assert shown.exit_code == ran.exit_code, shown.stderr
    conforms(ran.document, "schema_status")
    return ran


def text_of(view: RenderableType, width: int = 140) -> str:
    file = StringIO()
    Console(file=file, width=width, markup=False, emoji=False, highlight=False).print(view)
    return "".join(line.rstrip() + "\n" for line in file.getvalue().splitlines())


# --- status --------------------------------------------------------------------------------------------------------------------------


def test_a_real_environment(run: Run, unchanged: Path) -> None:
    for cluster in ([], ["--cluster"]):
        ran = run("schema", "status", "--env", unchanged, *cluster, "--json")
        assert ran.exit_code == 0, ran.stdout
        conforms(ran.document, "schema_status")
        state = LedgerReader(Environment.open(str(unchanged))).state()
        assert state.release is not None
        assert (ran.document["release"], ran.document["hash"]) == ("1.0.0", state.release.fingerprint)
        assert set(ran.document["collections"]) == {"flights", "planes"}
    assert ran.document["cluster"]["verdict"] == "consistent"


def test_previous_hashes_after_an_upgrade_and_the_way_back(run: Run, env: Path, product: Product) -> None:
    """What was there last is accepted on either side of it: of a table that was changed, and of one that was replaced."""
    schema = SCHEMA_1.replace("hour INT", "hour INT, gust DOUBLE").replace("year INT", "year STRING")
    release = product.release("1.1.0", schema, 'evolution("flights"), replacement("planes")')

    def hashes() -> dict[str, tuple[str, list[str]]]:
        found = run("schema", "status", "--env", env, "--json").document["collections"]
        return {name: (item["hash"], item["previous"]) for name, item in found.items()}

    first = {name: current for name, (current, _) in hashes().items()}
    assert run("upgrade", "--env", env, "--release", release, "--json").exit_code == 0
    second = {name: current for name, (current, _) in hashes().items()}
    assert hashes() == {name: (second[name], [first[name]]) for name in first}
    assert set(first.values()).isdisjoint(second.values())
    assert run("rollback", "--env", env, "--json").exit_code == 0
    assert hashes() == {name: (first[name], [second[name]]) for name in first}


EXITS = [
    ("no stream", [], 0),
    ("all follow", [flowing], 0),
    ("one lags", [lambda found: flowing(found, seen=4, origin_version=6)], 0),
    ("one is paused", [flowing, paused], 3),
    ("one is stopped", [stopped], 3),
]


@pytest.mark.parametrize(("states", "code"), [case[1:] for case in EXITS], ids=[case[0] for case in EXITS])
def test_schema_exit_codes(run: Run, west: Environment, states: list[Any], code: int) -> None:
    for number, state in enumerate(states):
        write_state(west, state(stream(f"o{number}")))
    for arguments in ([], ["--cluster"]):
        assert looked(run, west, *arguments).exit_code == code


def test_exit_codes_of_a_cluster(run: Run, east: Environment, west: Environment) -> None:
    now = pendulum.now("UTC")
    move(east, "flights", "id", "gust")
    exchange(east, west, now)
    rolling = looked(run, west, "--cluster")
    assert (rolling.exit_code, rolling.document["cluster"]["verdict"]) == (0, "rolling_upgrade")
    write_state(east, paused(stream("west", "east")))
    exchange(east, west, now.add(minutes=1))
    assert looked(run, west).exit_code == 0, "nothing into it waits"
    assert looked(run, west, "--cluster").exit_code == 3
    write_state(east, flowing(stream("west", "east")))
    move(east, "flights", "id", "gust", "wind")
    exchange(east, west, now.add(minutes=2))
    apart = looked(run, west, "--cluster")
    assert (apart.exit_code, apart.document["cluster"]["verdict"]) == (3, "diverged")
    assert looked(run, west).exit_code == 0


def test_damage_changes_no_exit_code(run: Run, west: Environment) -> None:
    west.store().put(f"{NODES}/north.json", b"{")
    west.store().put(stream().key, b"{")
    assert [item["where"] for item in looked(run, west).document["unreadable"]] == [stream().key]
    ran = looked(run, west, "--cluster")
    assert ran.exit_code == 0
    assert [item["where"] for item in ran.document["unreadable"]] == [stream().key, f"{NODES}/north.json"]
    assert "unreadable  _schemamig/replicas/nodes/north.json: " in run("schema", "status", "--cluster", "--env", west.location.uri).stdout


def test_schema_no_environment(run: Run, tmp_path: Path) -> None:
    for command in ("status", "refresh"):
        refused(run, "schema", command, "--env", tmp_path / "nowhere", code="no_environment")
    assert list(tmp_path.iterdir()) == []


# --- what a person reads -------------------------------------------------------------------------------------------------------------


def test_one_environment_is_one_screen(west: Environment) -> None:
    move(west, "flights", "id", "gust")
    warned: list[StreamState] = [paused(stream()), flowing(stream(collection="planes")), stopped(stream("north"))]
    for state in warned:
        write_state(west, state)
    found = schema_status(west, NOW.add(minutes=2))
    first, second, planes = hash_of("flights", "id"), hash_of("flights", "id", "gust"), hash_of("planes", "id", "seats")
    assert text_of(local_view(found.to_json())) == (
        f"{west.location.uri}  at 1.1.0   west\n"
        f"schema hash {found.node.set_hash[:16]}   not published yet\n"
        "\n"
        "collection  hash              since version  previous (accepted during rolling upgrades)\n"
        f"flights     {second[:16]}             20  {first[:16]}\n"
        f"planes      {planes[:16]}             10\n"
        "\n"
        "from   to    collection  state            behind    for  as of\n"
        "east   west  flights     paused     5 version(s)  4 min  2026-03-01 12:30 UTC\n"
        "east   west  planes      following  0 version(s)    0 s  2026-03-01 12:30 UTC\n"
        "north  west  flights     stopped    5 version(s)  4 min  2026-03-01 12:30 UTC\n"
        "paused  flights  since 2026-03-01 12:27 UTC (5 min), at version 8, schema_mismatch: the target has no column gust\n"
        "stopped  flights  log_cleaned: versions 8 to 9 are gone\n"
    )


def test_a_cluster_is_one_screen(tmp_path: Path, east: Environment, west: Environment) -> None:
    north = environment(tmp_path, "north", flights=["id"], planes=["id", "seats"])
    for env in (east, north):
        move(env, "flights", "id", "gust")
        exchange(env, west, NOW.subtract(seconds=400 if env is north else 12))
    found = cluster_status(west, NOW)
    old, new = found.local.node.set_hash[:16], nodes(west)[0].set_hash[:16]
    assert text_of(cluster_view(found.to_json()), 200) == (
        f"{west.location.uri}  at 1.0.0   west\n"
        f"schema hash {old}   published 2026-03-01 12:23 UTC\n"
        "rolling upgrade in progress   3 environment(s), 1 not heard of lately\n"
        "\n"
        "environment  release  hash              heard of          software  where\n"
        f"east         1.1.0    {new}  12 s ago          0.1.0     {east.location.uri}\n"
        f"north        1.1.0    {new}  7 min ago, stale  0.1.0     {north.location.uri}\n"
        f"west         1.0.0    {old}  this one          0.1.0     {west.location.uri}\n"
        "\n"
        f"all collections  {new}  east, north (current)\n"
        f"all collections  {old}  west (current); east, north (previous)\n"
        "\n"
        "flights  rolling upgrade in progress\n"
        f"   {hash_of('flights', 'id')[:16]}  west (current); east, north (previous)\n"
        f"   {hash_of('flights', 'id', 'gust')[:16]}  east, north (current)\n"
        "     differs: add gust BIGINT\n"
    )


def test_many_lines_are_a_number(tmp_path: Path) -> None:
    count = LINES_SHOWN + 5
    env = environment(tmp_path, "west", **{f"c{number:02}": ["id"] for number in range(count)})
    for number in range(count):
        write_state(env, flowing(stream(collection=f"c{number:02}")))
    write_state(env, paused(stream("north")))
    shown = text_of(local_view(schema_status(env, NOW).to_json()))
    assert "and 5 more (--json has all)" in shown
    assert f"{count} streams have brought everything." in shown
    assert "paused  flights  since" in shown


def test_no_control_characters_of_others_reach_the_terminal(run: Run, west: Environment, east: Environment) -> None:
    exchange(east, west, pendulum.now("UTC"))
    key = f"{NODES}/east.json"
    west.store().put(key, west.store().get(key).replace(b'"software":"', b'"software":"\\u001b[31m'))
    assert "\x1b" not in run("schema", "status", "--cluster", "--env", west.location.uri).stdout


# --- diff ----------------------------------------------------------------------------------------------------------------------------


def test_cli_schema_diff(run: Run, east: Environment, west: Environment) -> None:
    move(east, "flights", "id", "gust double")
    move(east, "gates", "id")
    with unwritten(east), unwritten(west):
        ran = run("schema", "diff", west.location.uri, east.location.uri, "--json")
        shown = run("schema", "diff", west.location.uri, east.location.uri)
        flights = run("schema", "diff", east.location.uri, west.location.uri, "--collection", "flights", "--json")
    assert ran.exit_code == 0, ran.stdout
    conforms(ran.document, "schema_diff")
    assert [(item["collection"], item["text"]) for item in ran.document["changes"]] == [
        ("flights", "add gust DOUBLE"),
        ("gates", "create the collection"),
    ]
    assert [ran.document[side]["env_id"] for side in ("from", "to")] == ["west", "east"]
    assert ran.document["from"]["hash"] == schema_status(west, NOW).node.set_hash
    assert [item["text"] for item in flights.document["changes"]] == ["drop gust"]
    assert flights.document["drops_data"] is True
    assert shown.stdout.startswith(f"{west.location.uri}  1.0.0  sf1:")
    assert "add gust DOUBLE" in shown.stdout


def test_diff_of_equals(run: Run, east: Environment, west: Environment) -> None:
    ran = run("schema", "diff", east.location.uri, west.location.uri, "--json")
    assert (ran.document["outcome"], ran.document["changes"]) == ("none", [])
    assert ran.document["from"]["hash"] == ran.document["to"]["hash"]


def test_diff_of_what_neither_has(run: Run, east: Environment, west: Environment) -> None:
    uris = east.location.uri, west.location.uri
    refused(run, "schema", "diff", *uris, "--collection", "gates", code="unknown_collection", collection="gates")
    refused(run, "schema", "diff", east.location.uri, f"{west.location.uri}/nowhere", code="no_environment")


# --- refresh -------------------------------------------------------------------------------------------------------------------------


def test_refresh_publishes_and_wakes(run: Run, west: Environment) -> None:
    for state in (paused(stream()), flowing(stream(collection="planes")), stopped(stream("north"))):
        write_state(west, state)
    ledger = Path(west.location.local_path or "") / "_schemamig" / "ledger"
    before = tree(ledger)
    ran = run("schema", "refresh", "--env", west.location.uri, "--json")
    assert ran.exit_code == 0, ran.stdout
    conforms(ran.document, "schema_refresh")
    assert ran.document["woken"] == [{"origin": "east", "collection": "flights"}]
    assert ran.document["hash"] == nodes(west)[0].set_hash
    assert tree(ledger) == before
    found = read_states(west)[0].pause
    assert found is not None
    assert found.recomputed_at < NOW.subtract(years=1)
    assert looked(run, west).document["published"] is True
    shown = run("schema", "refresh", "--env", west.location.uri)
    assert shown.stdout.endswith("woken  flights  from east\n")


def test_refresh_with_nothing_paused(run: Run, west: Environment) -> None:
    shutil.rmtree(Path(west.location.local_path or "") / "_schemamig" / "replicas", ignore_errors=True)
    assert run("schema", "refresh", "--env", west.location.uri).stdout.endswith(
        "No replication into it is paused; stopped ones look again, too.\n"
    )
