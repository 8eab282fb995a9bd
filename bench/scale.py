"""Many collections on the local disk: time and memory of each command, and how they grow from 1,000 to 10,000."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.schema_only import SCHEMAMIG, releases
from bench.tools.measure import Usage, run
from bench.tools.table import Row, growth, usage_cell

FEW, MANY = 1_000, 10_000
#: Of the upgrade that adds a column to each.
GOALS = {FEW: "2.5 s", MANY: "25 s, 500 MiB"}


def many_collections(folder: Path) -> Iterator[Row]:
    few, many = (_commands(folder / str(tables), tables) for tables in (FEW, MANY))
    for name in few:
        a, b = few[name], many[name]
        for tables, usage in ((FEW, a), (MANY, b)):
            yield Row(
                f"{name}, {tables:,} collections",
                usage_cell(usage),
                goal=GOALS[tables] if name == "upgrade" else "",
            )
        yield growth(a, b, MANY / FEW)


def _commands(folder: Path, tables: int) -> dict[str, Usage]:
    first, second = releases(folder, tables)
    env = str(folder / "lake")

    def command(name: str, *options: str, expect: tuple[int, ...] = (0,)) -> Usage:
        return run([SCHEMAMIG, *name.split(), "--env", env, "--json", *options], expect)

    return {
        "init": command("upgrade", "--release", str(first), "--create"),
        "plan": command("plan", "--release", str(second), expect=(3,)),
        "upgrade": command("upgrade", "--release", str(second)),
        "status": command("status"),
        "ledger verify": command("ledger verify"),
        "history": command("history"),
        "adopt": run([SCHEMAMIG, "adopt", *_of_another(folder), "--create", "--json"]),
    }


def _of_another(folder: Path) -> list[str]:
    """Move the tables to a folder of nobody's; return what an environment says that adopts them."""
    tables = folder / "tables"
    tables.mkdir()
    for log in (folder / "lake").glob("[!_]*/*/_delta_log"):
        log.parent.rename(tables / log.parent.parent.name)
    return ["--env", str(folder / "other"), "--release", str(folder / "adopted"), "--discover", str(tables)]
