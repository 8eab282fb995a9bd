"""A lake of two releases with rewrites between them, and what its rows have to be after everything that writers were told had worked."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from airflow_provider_schemamig.core import commands
from airflow_provider_schemamig.core.delta.log.head import read_head
from airflow_provider_schemamig.core.environment import Environment
from airflow_provider_schemamig.core.ledger.rows import ShardState
from airflow_provider_schemamig.core.ledger.state import State
from airflow_provider_schemamig.core.ledger.store import LedgerReader
from airflow_provider_schemamig.core.names import CollectionName, Generation
from airflow_provider_schemamig.core.spark.errors import ConstraintViolated
from airflow_provider_schemamig.core.upgrade.context import controls
from airflow_provider_schemamig.core.upgrade.plan.live_tables import table_store
from tests.support.lake import Crash, Lake
from tests.support.product import Product
from tests.support.rows import tables
from tests.support.rows.jobs import Query, RowJobs
from tests.support.rows.tables import Row, as_set
from tests.support.upgrades import whole

#: ``keyed`` has a key and a change data feed, ``plain`` neither.
SCHEMA_1 = """CREATE TABLE keyed (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id));
CREATE TABLE plain (line STRING, n INT);
"""
SCHEMA_2 = """CREATE TABLE keyed (id BIGINT NOT NULL, v BIGINT, PRIMARY KEY (id));
CREATE TABLE plain (line STRING, n BIGINT, day STRING);
"""
UP_KEYED = "SELECT id, CAST(v AS BIGINT) AS v FROM {keyed}"
DOWN_KEYED = "SELECT id, CAST(v AS STRING) AS v FROM {keyed}"
UP_PLAIN = "SELECT line, CAST(n AS BIGINT) AS n, substr(line, 1, 2) AS day FROM {plain}"
DOWN_PLAIN = "SELECT line, CAST(n AS INT) AS n FROM {plain}"
STEPS = f"""
    rewrite("keyed", up="{UP_KEYED}", down="{DOWN_KEYED}"),
    rewrite("plain", up="{UP_PLAIN}", down="{DOWN_PLAIN}"),
"""
COLLECTIONS = ("keyed", "plain")


def up_keyed(row: Row) -> list[Row]:
    return [{"id": row["id"], "v": None if row["v"] is None else int(row["v"])}]


def down_keyed(row: Row) -> list[Row]:
    return [{"id": row["id"], "v": None if row["v"] is None else str(row["v"])}]


def up_plain(row: Row) -> list[Row]:
    return [{"line": row["line"], "n": row["n"], "day": None if row["line"] is None else row["line"][:2]}]


def down_plain(row: Row) -> list[Row]:
    return [{"line": row["line"], "n": row["n"]}]


QUERIES: dict[str, Query] = {UP_KEYED: up_keyed, DOWN_KEYED: down_keyed, UP_PLAIN: up_plain, DOWN_PLAIN: down_plain}
UP: dict[str, Query] = {"keyed": up_keyed, "plain": up_plain}
DOWN: dict[str, Query] = {"keyed": down_keyed, "plain": down_plain}
Work = Callable[[Environment, RowJobs], object]
#: The generation that upgrades it.
SECOND = Generation(2)


@dataclass
class Rewritten:
    """``wanted``: collection -> rows in the shape of the release they were last moved to, by replay of what was acknowledged."""

    lake: Lake
    wanted: dict[str, list[Row]] = field(default_factory=dict)
    shape: str = "1.0.0"
    #: How often ``write_all`` was called: keys that it inserts are new.
    writes: int = 0

    @property
    def env(self) -> Environment:
        return self.lake.env

    @property
    def state(self) -> State:
        return LedgerReader(self.env).state()

    @property
    def version(self) -> str | None:
        return self.lake.version

    def path(self, collection: str) -> Path:
        return self.lake.path(collection)

    def copy(self, folder: Path) -> Rewritten:
        """The same lake elsewhere."""
        shutil.copytree(self.env.location.local_path or Path(), folder / "lake")
        lake = replace(self.lake, env=Environment.open(str(folder / "lake")))
        return Rewritten(lake, {name: list(rows) for name, rows in self.wanted.items()}, self.shape, self.writes)

    # --- writers ---------------------------------------------------------------------------------------------------------------------

    def insert(self, collection: str, rows: Sequence[Row]) -> None:
        """Somebody else inserts; remembered only once it is acknowledged. A sealed table refuses it."""
        self.settle_shape()
        with contextlib.suppress(ConstraintViolated):
            tables.insert(self.path(collection), rows)
            self.wanted[collection] += [dict(row) for row in rows]

    def change(self, collection: str, of: Callable[[Row], Row | None]) -> None:
        """Somebody else updates and deletes, likewise."""
        self.settle_shape()
        with contextlib.suppress(ConstraintViolated):
            tables.change(self.path(collection), of)
            self.wanted[collection] = [row for row in (of(dict(row)) for row in self.wanted[collection]) if row is not None]

    def write_all(self, number: int) -> None:
        """One statement of each kind, on other rows for each ``number``; in the shape of the release that is in force."""
        self.settle_shape()
        self.writes += 1
        new = self.shape == "1.1.0"
        self.insert("keyed", [{"id": 1000 + self.writes, "v": number if new else str(number)}])
        line = f"w{number}"
        self.insert("plain", [{"line": line, "n": 1, **({"day": line[:2]} if new else {})}] * 2)
        self.change("keyed", lambda row: None if row["id"] == number else row)
        self.change("keyed", lambda row: {**row, "v": 7 if new else "7"} if row["id"] == number + 50 else row)
        self.change("plain", lambda row: None if row["line"] == f"a{number}" else row)

    def settle_shape(self) -> None:
        """Replay through ``up`` or ``down`` once the release in force is another one."""
        version = self.version
        assert version is not None
        if version != self.shape:
            through = UP if version == "1.1.0" else DOWN
            self.wanted = {name: [made for row in rows for made in through[name](row)] for name, rows in self.wanted.items()}
            self.shape = version

    # --- what must hold --------------------------------------------------------------------------------------------------------------

    def check(self, version: str) -> None:
        """At this release with just the acknowledged rows; sealed is what is retired and nothing else; whole."""
        assert self.version == version, f"the release is {self.version}"
        self.settle_shape()
        for name in COLLECTIONS:
            found = tables.snapshot(self.path(name))
            assert as_set(found.rows) == as_set(self.wanted[name]), name
        self.check_seals()
        whole(self.lake)

    def check_seals(self) -> None:
        state = self.state
        for shard in state.shards.values():
            if shard.state is not ShardState.BUILDING:
                sealed = read_head(table_store(self.env, state, shard.shard)).sealed_for
                assert (sealed is not None) == (shard.state is ShardState.RETIRED), f"{shard.shard} is {shard.state}, sealed for {sealed}"

    def check_clean(self) -> None:
        """Nothing is left of what was built in vain."""
        root = self.env.location.local_path or Path()
        left = [path for path in (root / "_schemamig" / "scratch").rglob("*") if path.is_file()]
        assert not left, left
        known = {shard.uri for shard in self.state.shards.values()}
        folders = {str(path.relative_to(root)) for name in COLLECTIONS for path in (root / name).iterdir()}
        assert folders <= known, folders - known


def jobs(hook: Callable[[str, str, str], None] | None = None) -> RowJobs:
    return RowJobs(QUERIES, hook)


def make_rewritten(folder: Path) -> Rewritten:
    """At 1.0.0 with several files in each table, one of them touched again."""
    product = Product(folder / "product")
    first, second = product.release("1.0.0", SCHEMA_1), product.release("1.1.0", SCHEMA_2, STEPS)
    made = Rewritten(Lake(Environment.open(str(folder / "lake")), first, second), {name: [] for name in COLLECTIONS})
    made.lake.upgrade(first)
    tables.enable_change_data(made.path("keyed"))
    made.insert("keyed", [{"id": number, "v": str(number)} for number in range(1, 5)])
    made.insert("keyed", [{"id": number, "v": None} for number in range(51, 54)])
    made.insert("plain", [{"line": f"a{number}", "n": number} for number in range(1, 5)])
    made.insert("plain", [{"line": None, "n": None}, {"line": None, "n": None}, {"line": "a1", "n": 1}])
    controls.throttle(made.env, None, max_files=1)
    return made


# --- processes -----------------------------------------------------------------------------------------------------------------------


def upgrade(found: Rewritten, env: Environment, runner: RowJobs, claim_id: str | None = None, **options: Any) -> Any:
    return commands.upgrade(env, found.lake.second, jobs=runner, claim_id=claim_id, **options)


def observed(found: Rewritten, hook: Callable[[str, str, str], None]) -> tuple[Environment, RowJobs]:
    """An environment and jobs that tell ``hook`` of every durable write."""
    return replace(found.env, on_write=hook), jobs(hook)


def moments(found: Rewritten, work: Work) -> list[str]:
    """What the moments to die of ``work`` are about, two for each durable write."""
    seen: list[str] = []
    work(*observed(found, lambda moment, what, key: seen.append(f"{moment} {what} {key}")))
    return seen


def chosen(count: int, tries: int | None) -> list[int]:
    """Of ``count`` moments ``tries``, evenly spread; None: all."""
    if tries is None or tries >= count:
        return list(range(count))
    return [count * (2 * number + 1) // (2 * tries) for number in range(tries)]


def dying_at(found: Rewritten, moment: int) -> tuple[Environment, RowJobs]:
    """For a process that dies at its ``moment``-th moment."""
    count = 0

    def hook(moment_: str, what: str, key: str) -> None:
        nonlocal count
        count += 1
        if count > moment:
            raise Crash(f"{moment_} {what} {key}")

    return observed(found, hook)


def die(found: Rewritten, moment: int, work: Work) -> bool:
    """Run ``work`` in a process that dies at ``moment``; False if it ended before."""
    try:
        work(*dying_at(found, moment))
    except Crash:
        return True
    return False


def acted_at(found: Rewritten, moment: int, work: Work, other: Callable[[], object]) -> BaseException | None:
    """Run ``work``, and all of ``other`` at its ``moment``-th moment; what ``work`` ended with."""
    from airflow_provider_schemamig.exceptions import SchemamigError

    count = 0

    def hook(moment_: str, what: str, key: str) -> None:
        nonlocal count
        count += 1
        if count == moment + 1:
            other()

    try:
        work(*observed(found, hook))
    except SchemamigError as error:
        return error
    return None


def claimed(found: Rewritten, runner: RowJobs | None = None, **options: Any) -> Generation:
    generation = commands.preflight(found.env, found.lake.second, jobs=runner or jobs(), **options).generation
    assert generation is not None
    return generation


def expanded(found: Rewritten, **options: Any) -> Generation:
    generation = claimed(found, **options)
    commands.promote(found.env, generation)
    commands.expand(found.env, generation)
    return generation


def built(found: Rewritten, collection: str) -> Path:
    """The shard that the newest generation builds for a collection."""
    rows = [row for row in found.state.replacements.values() if row.collection == CollectionName(collection)]
    row = max(rows, key=lambda row: row.generation)
    path = found.env.table_location(found.state.shards[row.shard].uri).local_path
    assert path is not None
    return path


def cutover(env: Environment, runner: RowJobs) -> object:
    return commands.cutover(env, SECOND, jobs=runner)


def follow(env: Environment, runner: RowJobs) -> object:
    return commands.tail(env, SECOND, jobs=runner, once=True)


def back(env: Environment, runner: RowJobs) -> object:
    return commands.rollback(env, jobs=runner)
