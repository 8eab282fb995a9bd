"""Small release folders with fixtures, and a rehearsal of one."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_schemamig.core.release.check import load_checked
from airflow_provider_schemamig.core.testing.rehearse import Rehearsal, rehearsal
from airflow_provider_schemamig.core.testing.results import Result
from airflow_provider_schemamig.core.testing.rows.fixtures import write_fixtures
from tests.support.product import Product

#: Every type, nested ones too, keys, a CHECK, a partition; then renames, drops at any depth, widenings, a replacement, a removal.
HISTORY = (
    (
        "CREATE TABLE a (id BIGINT NOT NULL, n TINYINT, d DECIMAL(10,2), f FLOAT, t TIMESTAMP, tn TIMESTAMP_NTZ, day DATE, b BINARY,"
        " s STRUCT<x: INT NOT NULL, y: ARRAY<STRUCT<z: STRING>>>, m MAP<STRING, STRUCT<q: INT>>, v VARCHAR(5), ok BOOLEAN,"
        " CONSTRAINT small CHECK (n IS NULL OR n < 50), PRIMARY KEY (id)) PARTITIONED BY (day);"
        " CREATE TABLE stats (k STRING, n INT); CREATE TABLE old (id INT);",
        "",
    ),
    (
        "CREATE TABLE a (id BIGINT NOT NULL, number SMALLINT, d DECIMAL(10,2), f FLOAT, t TIMESTAMP, tn TIMESTAMP_NTZ, day DATE, b BINARY,"
        " s STRUCT<x: BIGINT NOT NULL, y: ARRAY<STRUCT<z: STRING, w: DATE>>>, m MAP<STRING, STRUCT<q: INT, r: STRING>>, v VARCHAR(9),"
        " ok BOOLEAN, extra STRING, CONSTRAINT small CHECK (number IS NULL OR number < 50), PRIMARY KEY (id)) PARTITIONED BY (day);"
        " CREATE TABLE stats (k STRING, n STRING); CREATE TABLE young (id INT NOT NULL);",
        'evolution("a", rename={"n": "number"}), replacement("stats"), removal("old")',
    ),
    (
        "CREATE TABLE a (id BIGINT, number SMALLINT, d DECIMAL(10,2), f FLOAT, tn TIMESTAMP_NTZ, day DATE, b BINARY,"
        " s STRUCT<y: ARRAY<STRUCT<zz: STRING>>>, m MAP<STRING, STRUCT<q: INT, r: STRING>>, v STRING, ok BOOLEAN, extra STRING,"
        " CONSTRAINT small CHECK (number IS NULL OR number < 50), PRIMARY KEY (id)) PARTITIONED BY (day);"
        " CREATE TABLE stats (k STRING, n STRING, more INT); CREATE TABLE youth (id INT NOT NULL, x INT);",
        'evolution("a", drop=["t", "s.x", "s.y.element.w"], rename={"s.y.element.z": "zz"}), evolution("stats"),'
        ' evolution("youth", renamed_from="young")',
    ),
)
#: 1.0.1 is an earlier part of what 1.1.0 does.
PLAIN = "CREATE TABLE a (id BIGINT);"
WITH_X = "CREATE TABLE a (id BIGINT, x INT);"
WITH_XY = "CREATE TABLE a (id BIGINT, x INT, y INT);"
WITH_XYZ = "CREATE TABLE a (id BIGINT, x INT, y INT, z INT);"


def history(folder: Path, releases: tuple[tuple[str, str], ...] = HISTORY) -> Path:
    """The head's folder of 1.0.0, 1.1.0, ..., with fixtures."""
    product = Product(folder / "product")
    head = [product.release(f"1.{number}.0", schema, steps) for number, (schema, steps) in enumerate(releases)][-1]
    write_fixtures(load_checked(head))
    return head


def with_fixtures(folder: Path) -> Path:
    write_fixtures(load_checked(folder))
    return folder


def rehearsed(folder: Path, work: Path, **options: str) -> Rehearsal:
    return rehearsal(folder, work, **options)  # type: ignore[arg-type]


def take(found: Rehearsal, path: str) -> list[Result]:
    return [found.run(each) for each in found.find(path)]


def causes(results: list[Result]) -> set[tuple[str, str]]:
    """(phase, cause) of every finding."""
    return {(finding.phase.partition(" at ")[0], finding.cause) for result in results for finding in result.findings}
