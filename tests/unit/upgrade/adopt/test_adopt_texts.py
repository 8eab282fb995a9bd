"""Every error about adopting, giving back and drift, word for word: adopt_texts.txt, in the order of the table below."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_schemamig.core.delta.errors import AnotherTable
from airflow_provider_schemamig.core.release.sql.render import NotDeclarable
from airflow_provider_schemamig.core.upgrade.adopt import errors as a
from airflow_provider_schemamig.core.upgrade.drift import errors as d
from airflow_provider_schemamig.core.upgrade.errors import DriftFound
from airflow_provider_schemamig.core.upgrade.plan.errors import Unmanaged
from airflow_provider_schemamig.exceptions import SchemamigError

TEXTS = Path(__file__).parent / "adopt_texts.txt"
DOCS = Path(__file__).parents[4] / "docs" / "adopting.md"
URI = "s3://raw/flights"

ERRORS: tuple[SchemamigError, ...] = (
    NotDeclarable(collection="flights", reason="s.a has a default, and only a column can have one"),
    a.SameTable(collection="flights", uri=URI, other="planes"),
    a.NoTables(uri="s3://raw"),
    a.RepeatedCollection(collection="flights"),
    a.AlreadyManaged(collection="flights", uri=URI, owner="planes"),
    a.WrongPlace(collection="flights", uri=URI, reason="it is part of the environment's own records"),
    a.TableSealed(collection="flights", uri=URI, moved_to="g2-0123"),
    a.ForgetsTransactions(collection="flights", uri=URI, value="interval 1 day"),
    a.TableDiffers(collection="flights", uri=URI, version="1.0.0", differences=("gate: expected nothing, found STRING", "b: c")),
    a.TablesMissing(version="1.0.0", names=("flights", "planes")),
    a.MoreThanAdopted(source="1.0.0", target="1.2.0", others=("planes",)),
    Unmanaged(collection="flights", version="1.1.0"),
    a.CollectionInUse(collection="flights", what="ana has pinned its history", first="Take it back first."),
    a.Overtaken(),
    d.CannotAccept(collection="flights", reasons=("seats has another type, and its values were converted",)),
    d.CannotRevert(collection="flights", reasons=("seats has another type, and files hold it that way",)),
    d.NotInVersions(collection="flights", changes=("add gate",)),
    d.LossyRevert(collection="flights", losses=("gate: its values are gone",)),
    d.SealedByLostHistory(collection="flights", uri=URI, moved_to="g2-0123"),
    AnotherTable(collection="flights", uri=URI, expected="0b1c", found="77aa"),
    DriftFound(collection="flights", differences=("gate: expected nothing, found STRING",)),
)


def test_adopt_texts() -> None:
    assert [str(error) for error in ERRORS] == TEXTS.read_text().splitlines()


def test_every_class_is_in_the_table_and_in_the_docs() -> None:
    defined = {
        found
        for module in (a, d)
        for found in vars(module).values()
        if isinstance(found, type) and issubclass(found, SchemamigError) and found.__module__ == module.__name__
    }
    assert defined <= {type(error) for error in ERRORS}
    text = DOCS.read_text()
    assert [found.code for found in defined if f"`{found.code}`" not in text] == []


def test_each_says_what_to_do() -> None:
    codes = {type(error).code for error in ERRORS}
    assert len(codes) == len(ERRORS)
    for error in ERRORS:
        assert error.message.endswith("."), error
        assert error.next_action[0].isupper() or error.next_action.startswith("`"), error
