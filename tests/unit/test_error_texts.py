"""Every error of the tree, word for word: ``error_texts.txt`` holds a class a paragraph, with made-up values in its fields.

Below the class its code, then what it says and, after an arrow, what to do next; once for each combination of values that changes either.
``python -m tests.unit.test_error_texts`` writes the file anew: read its diff.
"""

from __future__ import annotations

import functools
import importlib
import pickle
import pkgutil
import re
import sys
import types
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, Field, fields
from difflib import unified_diff
from enum import Enum
from itertools import product
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pendulum
import pytest

import airflow_provider_schemamig
from airflow_provider_schemamig.core.ledger.admin.findings import LedgerFinding
from airflow_provider_schemamig.core.names import Version
from airflow_provider_schemamig.exceptions import Refusal, SchemamigError
from airflow_provider_schemamig.visible import visible
from tests.support.airflow import home as airflow_home

airflow_home.prepare()  # some errors are Airflow's face's
TEXTS = Path(__file__).with_name("error_texts.txt")
#: Values on which a text depends, by the class that asks for them: (field, value).
TELLING: dict[str, list[tuple[str, Any]]] = {
    "BackportBreaksPath": [("steps", ())],
    "DriftFound": [("collection", None)],
    "InternalError": [("text", " ")],
    "KeyViolated": [("key", "FOREIGN KEY (a)")],
    "MergeConflict": [("file", name) for name in ("release.toml", "schema.sql", "snapshots.lock")],
    "NotOnline": [("path", "")],
    "PlanChanged": [("approved", "0123456789abcdef"), ("current", "0123456789abcdef")],
    "ReaderFenced": [("column", "gate.open"), ("current", Version(0, 9, 0)), ("current", Version(1, 0, 0))],
    "UnfinishedMigration": [("question", "drop of hour?.")],
    "VersionBelowMinimum": [("file", "release.toml")],
    "WriterFenced": [("current", Version(0, 9, 0)), ("current", Version(1, 0, 0))],
    "WrongColumns": [("missing", ()), ("extra", ())],
}
SECRET = "s3://someone:hunter2@lake/flights"


def test_error_texts() -> None:
    found, held = lines(), TEXTS.read_text().splitlines()
    assert found == held, "\n".join(unified_diff(held, found, TEXTS.name, "the code", lineterm="", n=2))


def test_no_error_speaks_in_old_or_private_words() -> None:
    """`anew`, `mend` and their kin have to be read twice, `twin` and `way back` mean something to us alone."""
    private = re.compile(r"\b([Mm]end|anew|[Ww]hoever|[Tt]wins?|walked back|[Ww]ay back|[Gg]ave .* back)\b|cannot be: ")
    assert [line for line in TEXTS.read_text().splitlines() if private.search(line)] == []


@pytest.fixture(scope="module")
def told() -> list[SchemamigError]:
    """Every error of the file."""
    return [error for kind in kinds() for error in variants(kind)]


def test_an_error_is_told_as_text_and_as_a_document_alike(told: list[SchemamigError]) -> None:
    for error in told:
        where = f"{error.subject}: " if error.collection else ""
        assert str(error) == visible(f"[{error.code}] {where}{error.message} {error.next_action}", lines=error.has_lines)
        assert error.to_json() == {
            "code": error.code,
            "message": error.message,
            "collection": error.subject,
            "next": error.next_action,
            "retryable": error.retryable,
        }


def test_an_error_is_the_same_after_pickling(told: list[SchemamigError]) -> None:
    for error in told:
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert (again.to_json(), str(again)) == (error.to_json(), str(error))
        assert again != error


def test_no_error_tells_a_credential_of_any_field(told: list[SchemamigError]) -> None:
    for error in told:
        for name in (field.name for field in fields(error) if isinstance(getattr(error, field.name), str)):
            leaky = type(error)(**{each.name: getattr(error, each.name) for each in fields(error)} | {name: SECRET})
            assert "hunter2" not in f"{leaky} {leaky!r} {leaky.to_json()}", (type(error), name)
            assert getattr(leaky, name) == SECRET


def test_no_field_is_read_as_a_template(told: list[SchemamigError]) -> None:
    for error in told:
        odd = {field.name: "{a}}{0!x" for field in fields(error) if isinstance(getattr(error, field.name), str)}
        assert str(type(error)(**{each.name: getattr(error, each.name) for each in fields(error)} | odd))


def test_each_error_says_what_is_wrong_and_what_to_do() -> None:
    for kind in kinds():
        assert kind.message is not SchemamigError.message, kind
        assert kind.next_action is not SchemamigError.next_action, kind


def test_error_texts_what_to_do_begins_a_sentence(told: list[SchemamigError]) -> None:
    for error in told:
        assert error.next_action[0].isupper() or error.next_action[0] in "`<", error  # <: what another error says


#: Errors of a part of the product -> the pages that say when they come; those of ``PLAIN`` say it themselves.
PAGES = {
    "core.testing.errors": ("testing-releases.md", "cli.md"),
    "core.upgrade.adopt.errors": ("adopting.md",),
    "core.upgrade.drift.errors": ("adopting.md",),
}
PLAIN = {"path_failed", "invalid_released", "unknown_upgrade_path"}


@pytest.mark.parametrize("module", PAGES)
def test_the_errors_of_a_page_are_on_it(module: str) -> None:
    docs = "".join((Path(__file__).parents[2] / "docs" / page).read_text() for page in PAGES[module])
    codes = {kind.code for kind in kinds() if kind.__module__.endswith(f".{module}")}
    assert codes
    assert [code for code in sorted(codes - PLAIN) if f"`{code}`" not in docs] == []


def lines() -> list[str]:
    return [line for kind in kinds() for line in (*_heading(kind), *_texts(kind), "")]


def _heading(kind: type[SchemamigError]) -> Iterator[str]:
    yield f"{kind.__module__.removeprefix(f'{airflow_provider_schemamig.__name__}.')}.{kind.__qualname__}"
    yield f"  {kind.code}, {'try again' if kind.retryable else 'refused' if issubclass(kind, Refusal) else 'failed'}"


def _texts(kind: type[SchemamigError]) -> Iterator[str]:
    for error in variants(kind):
        yield f"    {error.message}".replace("\n", "\\n")
        yield f"      -> {error.next_action}"


@functools.cache
def kinds() -> tuple[type[SchemamigError], ...]:
    """Every error that is raised, in the order in which they stand in the files."""
    for module in pkgutil.walk_packages(airflow_provider_schemamig.__path__, f"{airflow_provider_schemamig.__name__}."):
        importlib.import_module(module.name)
    found = {kind for kind in _below(SchemamigError) if not _is_base(kind)}
    return tuple(sorted(found, key=lambda kind: (kind.__module__, list(vars(sys.modules[kind.__module__])).index(kind.__name__))))


def _is_base(kind: type[SchemamigError]) -> bool:
    """Whether it is only what others are made of."""
    says_nothing = kind.message is SchemamigError.message or kind.next_action is SchemamigError.next_action
    return says_nothing and bool(kind.__subclasses__())


def _below(kind: type[SchemamigError]) -> Iterator[type[SchemamigError]]:
    for each in kind.__subclasses__():
        if each.__module__.startswith(airflow_provider_schemamig.__name__):
            yield each
            yield from _below(each)


def variants(kind: type[SchemamigError]) -> list[SchemamigError]:
    """``kind`` with each combination of values, of those that say the same the first."""
    hints = get_type_hints(kind)
    telling = TELLING.get(kind.__name__, [])
    choices = []
    for index, field in enumerate(each for each in fields(kind) if each.name != "collection"):
        values = [(field.name, value) for value in _values(field, hints[field.name], index)]
        choices.append([*values, *(each for each in telling if each[0] == field.name)])
    choices.append([("collection", "flights"), *(each for each in telling if each[0] == "collection")])
    told: dict[tuple[str, str], SchemamigError] = {}
    for chosen in product(*choices):
        error = kind(**dict(chosen))
        told.setdefault((error.message, error.next_action), error)
    return list(told.values())


def _values(field: Field[Any], hint: Any, index: int) -> list[Any]:
    """What the field is set to; a list is short, and long."""
    default = [] if field.default is MISSING or isinstance(field.default, bool | None) else [field.default]
    return [*_samples(field.name, hint, index), *default]


def _samples(name: str, hint: Any, index: int) -> Sequence[Any]:
    if get_origin(hint) in (Union, types.UnionType):
        return [value for part in get_args(hint) for value in _samples(name, part, index)]
    if get_origin(hint) in (tuple, Sequence):
        ones = _samples(name, get_args(hint)[0], index)
        texts = [f"<{name} {number}>" for number in range(1, 10)] if ones == [f"<{name}>"] else [*ones]
        return [tuple(texts[:1]), tuple(texts)]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return list(hint)
    samples: dict[Any, Sequence[Any]] = {
        str: [f"<{name}>"],
        int: [7000 + index],
        float: [7000.25 + index],
        bool: [False, True],
        types.NoneType: [None],
        Version: [Version(1, index, 0)],
        pendulum.DateTime: [pendulum.datetime(year, 3, 1, 4, 5, tz="Europe/Rome") for year in (2020, 2999)],
        LedgerFinding: [LedgerFinding("table_missing", "<where>", "<text>")],
        SchemamigError: [Refusal(), Refusal(collection="hotels")],
    }
    return samples[getattr(hint, "__supertype__", hint)]


if __name__ == "__main__":
    TEXTS.write_text("".join(f"{line}\n" for line in lines()))
