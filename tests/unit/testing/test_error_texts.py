"""Every error of the upgrade tests, word for word: error_texts.txt, in the order of the table below."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.core.release.folder.errors import FileRefusal
from airflow_provider_schemamig.core.testing import errors as e
from airflow_provider_schemamig.exceptions import Refusal

TEXTS = Path(__file__).parent / "error_texts.txt"
FILE = "fixtures/1.0.0/flights.jsonl"
OLD, PATCH, NEW = Version(1, 0, 0), Version(1, 0, 1), Version(1, 1, 0)

ERRORS: tuple[Refusal, ...] = (
    e.FixtureMissing(collection="flights", file=FILE),
    e.FixtureChanged(collection="flights", file=FILE),
    e.FixtureChanged(collection="flights", file=FILE, is_head=True),
    e.FixtureDamaged(collection="flights", file=FILE, line=3, reason="n is NULL, and declared NOT NULL"),
    e.FixtureNotCanonical(collection="flights", file=FILE, line=3, expected='{"n":1}'),
    e.FixtureTooNew(collection="flights", file=FILE, generator=2, known=1),
    e.FixtureUnexpected(file=FILE),
    e.PathFailed(
        collection="flights",
        path="1.0.0..1.1.0",
        phase="roll back",
        cause="rows_differ",
        reason="a reader of 1.0.0 finds other rows than it has to: 3 row(s) where 4 are due.",
        remedy="Correct the steps.",
        repeat="schemamig test --release flights_lake --seed 0 --path 1.0.0..1.1.0",
    ),
    e.BackportBreaksPath(backport=PATCH, existing=NEW, steps=("evolve flights",)),
    e.BackportBreaksPath(backport=PATCH, existing=NEW, steps=()),
    e.ReleaseForgotten(released=PATCH, target=NEW),
    e.ReleasedFileChanged(file="snapshots/1.0.0.sql", tag="v1.0.0"),
    e.InvalidReleased(reason="1.0.0 stands in it twice"),
    e.UnknownPath(text="1.0.0..9.9.9", known=("new..1.1.0", "1.0.0..1.1.0")),
)


def test_error_texts() -> None:
    assert [str(error) for error in ERRORS] == TEXTS.read_text().splitlines()


def test_every_class_is_in_the_table() -> None:
    defined = {found for found in vars(e).values() if isinstance(found, type) and issubclass(found, Refusal)}
    assert defined - {Refusal, FileRefusal} == {type(error) for error in ERRORS}


def test_each_is_in_the_docs() -> None:
    docs = "".join((Path(__file__).parents[3] / "docs" / name).read_text() for name in ("testing-releases.md", "cli.md"))
    plain = {"path_failed", "invalid_released", "unknown_upgrade_path"}
    assert [type(error).code for error in ERRORS if f"`{type(error).code}`" not in docs and type(error).code not in plain] == []
