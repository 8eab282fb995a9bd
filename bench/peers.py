"""The same work by SQLMesh and by Alembic, side by side: 1,000 tables of which none changed are planned; a column is added to each.

Both are installed into an environment of their own, so this is the one benchmark that needs the package registry. SQLMesh plans and
applies forward-only on DuckDB (``ALTER TABLE`` of the tables that are there), Alembic compares and upgrades SQLite: the quickest engine
of each. None of them writes to a lake, so their figures are what their own work takes, ours has the commits in it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from bench.schema_only import SCHEMAMIG, schema
from bench.tools.measure import Usage, run
from bench.tools.table import Cell, Row, cell
from tests.support.product import Product

TABLES = 1_000
PINNED = ("sqlmesh==0.236.0", "alembic==1.20.1")
_QUIET = {"SQLMESH__DISABLE_ANONYMIZED_ANALYTICS": "true", "NO_COLOR": "1"}


def side_by_side(folder: Path) -> Iterator[Row]:
    """Yield the two rows: nothing changed, and a column added; of each the planning and the work in one figure."""
    tools = _installed(folder / "tools")
    ours, sqlmesh, alembic = _ours(folder / "ours"), _sqlmesh(folder / "sqlmesh", tools), _alembic(folder / "alembic", tools)
    for what, us, mesh, theirs in zip(("unchanged, planned", "a column added to each"), ours, sqlmesh, alembic, strict=True):
        baseline = cell("SQLMesh: {:.2f} s CPU, {:.0f} MiB; Alembic: {:.2f} s CPU, {:.0f} MiB", *_pair(mesh), *_pair(theirs))
        ratio = cell("{:.1f}x and {:.1f}x", mesh.cpu_s / us.cpu_s, theirs.cpu_s / us.cpu_s)
        yield Row(f"{TABLES:,} tables: {what}", _took(us), baseline, ratio)


def _pair(usage: Usage) -> tuple[float, float]:
    return usage.cpu_s, usage.peak_mib


def _took(usage: Usage) -> Cell:
    return cell("{:.2f} s CPU, {:.0f} MiB", *_pair(usage))


def _installed(folder: Path) -> Path:
    """Make a virtual environment with both, and return its folder of commands."""
    uv = str(Path(sys.executable).with_name("uv"))
    run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)])
    run([uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), *PINNED])
    return folder / "bin"


def _ours(folder: Path) -> tuple[Usage, Usage]:
    product = Product(folder / "product")
    first = product.release("1.0.0", schema(TABLES))
    second = product.release("1.1.0", schema(TABLES, ", added STRING"), ", ".join(f'evolution("t{n}")' for n in range(TABLES)))
    env = str(folder / "lake")
    run([SCHEMAMIG, "upgrade", "--env", env, "--release", str(first), "--create", "--json"])
    unchanged = run([SCHEMAMIG, "plan", "--env", env, "--release", str(first), "--json"])
    return unchanged, run([SCHEMAMIG, "upgrade", "--env", env, "--release", str(second), "--json"])


# --- SQLMesh -------------------------------------------------------------------------------------------------------------------------

_CONFIG = """
gateways: {{local: {{connection: {{type: duckdb, database: {folder}/db.duckdb}}}}}}
default_gateway: local
model_defaults: {{dialect: duckdb, start: '2026-01-01'}}
"""
_COUNT = """
import duckdb, sys
query = "select count(*) from information_schema.columns where column_name = 'added'"
print(duckdb.connect(sys.argv[1]).execute(query).fetchone()[0])
"""
_MODEL = "MODEL (name lake.t{number}, kind INCREMENTAL_BY_UNIQUE_KEY (unique_key id));\nSELECT {columns} WHERE FALSE\n"


def _sqlmesh(folder: Path, tools: Path) -> tuple[Usage, Usage]:
    (folder / "models").mkdir(parents=True)
    (folder / "config.yaml").write_text(_CONFIG.format(folder=folder))
    columns = ["1::BIGINT AS id", *(f"{_null(kind)} AS c{number}" for number, kind in enumerate(_duckdb_types()))]
    logs = ["--log-file-dir", str(folder / "logs")]  # else it leaves a file a run in the current directory
    plan = [str(tools / "sqlmesh"), *logs, "--paths", str(folder), "plan", "--no-prompts", "--auto-apply", "--skip-tests"]
    _write_models(folder, columns)
    run(plan, env=_QUIET)
    unchanged = run(plan, env=_QUIET)
    _write_models(folder, [*columns, "NULL::TEXT AS added"])
    changed = run([*plan, "--forward-only"], env=_QUIET)
    added = int(run([str(tools / "python"), "-c", _COUNT, str(folder / "db.duckdb")]).output)
    assert added >= TABLES, f"SQLMesh added {added} columns"
    return unchanged, changed


def _write_models(folder: Path, columns: list[str]) -> None:
    for number in range(TABLES):
        (folder / "models" / f"t{number}.sql").write_text(_MODEL.format(number=number, columns=", ".join(columns)))


def _duckdb_types() -> list[str]:
    return ["INT", "BIGINT", "TEXT", "DOUBLE", "TIMESTAMP", "STRUCT(a INT, b TEXT)"] * 2


def _null(kind: str) -> str:
    return f"NULL::{kind}"


# --- Alembic -------------------------------------------------------------------------------------------------------------------------

_ENV = """
import os, sys
sys.path.insert(0, os.path.dirname(__file__))
from alembic import context
from sqlalchemy import create_engine
from models import metadata
with create_engine("sqlite:///" + os.path.dirname(__file__) + "/db").connect() as connection:
    context.configure(connection=connection, target_metadata=metadata)
    with context.begin_transaction():
        context.run_migrations()
"""
_TEMPLATE = """
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
from alembic import op
import sqlalchemy as sa
def upgrade():
    ${upgrades if upgrades else "pass"}
"""
_MODELS = """
import sqlalchemy as sa
metadata = sa.MetaData()
kinds = [sa.Integer, sa.BigInteger, sa.Text, sa.Float, sa.DateTime, sa.JSON] * 2
for number in range({tables}):
    columns = [sa.Column(f"c{{n}}", kind) for n, kind in enumerate(kinds)] + [sa.Column(name, sa.Text) for name in {more}]
    sa.Table(f"t{{number}}", metadata, sa.Column("id", sa.BigInteger, nullable=False), *columns)
"""


def _alembic(folder: Path, tools: Path) -> tuple[Usage, Usage]:
    """Return what ``check`` took, and what ``revision --autogenerate`` and ``upgrade`` took in all."""
    scripts = folder / "scripts"
    (scripts / "versions").mkdir(parents=True)
    (folder / "alembic.ini").write_text(f"[alembic]\nscript_location = {scripts}\n")
    (scripts / "env.py").write_text(_ENV)
    (scripts / "script.py.mako").write_text(_TEMPLATE)
    alembic = [str(tools / "alembic"), "-c", str(folder / "alembic.ini")]

    def migrated(more: list[str]) -> Usage:
        (scripts / "models.py").write_text(_MODELS.format(tables=TABLES, more=more))
        made = run([*alembic, "revision", "--autogenerate", "-m", "next"])
        done = run([*alembic, "upgrade", "head"])
        return Usage(made.wall_s + done.wall_s, made.cpu_s + done.cpu_s, max(made.peak_mib, done.peak_mib), done.output)

    migrated([])
    unchanged = run([*alembic, "check"])
    return unchanged, migrated(["added"])
