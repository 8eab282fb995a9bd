"""What `schemamig new` drafts: word for word for each kind of change, and right for any two schemas once its questions are decided."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.authoring.draft import Ask, DraftStep, RenameQuestion, draft_steps
from airflow_provider_schemamig.core.release.authoring.module_text import module_text
from airflow_provider_schemamig.core.release.folder.modules import Migration, UnfinishedMigration, read_module
from airflow_provider_schemamig.core.release.merge.validate import validate_chain
from airflow_provider_schemamig.core.release.sql.parse import parse_schema
from airflow_provider_schemamig.core.schema.model import Declaration
from airflow_provider_schemamig.exceptions import Refusal
from tests.support.examples import examples
from tests.unit.release.support import release_of, v
from tests.unit.schema.strategies import NAME, Evolved, declarations, evolutions

FILE = "migrations/v1_1_0.py"


def drafted(old: str, new: str, ask: Ask | None = None) -> tuple[DraftStep, ...]:
    return draft_steps(_declared(old), _declared(new), ask)


def _declared(sql: str) -> dict[CollectionName, Declaration]:
    return {declaration.name: declaration for declaration in parse_schema(sql, "schema.sql")}


def text_of(old: str, new: str, ask: Ask | None = None) -> str:
    """The lines between ``STEPS = [`` and ``]``."""
    return module_text("What", drafted(old, new, ask)).partition("STEPS = [\n")[2].removesuffix("]\n")


# --- golden texts -------------------------------------------------------------------------------------------------------------------

T = "CREATE TABLE t ({});".format

DRAFTS: dict[str, tuple[str, str, str]] = {
    "nothing": (T("a INT"), T("a INT COMMENT 'x'"), ""),
    "add": (T("a INT"), T("a INT, b STRING"), '    evolution("t"),\n'),
    "new collection": (T("a INT"), T("a INT") + "CREATE TABLE u (a INT, b INT, c INT);", ""),
    "drop": (
        T("a INT, b STRING"),
        T("a INT"),
        '    # TODO schemamig: drop of b: its values are gone when the hold is over\n    evolution("t", drop=["b"]),\n',
    ),
    "rename or not": (
        T("a INT, hour INT, s STRUCT<x: INT>"),
        T("a INT, hour_of_day INT, note STRING, s STRUCT<xs: BIGINT>"),
        "    # TODO schemamig: drop of hour: its values are gone when the hold is over; or is hour_of_day its new name? Then\n"
        '    #   rename={"hour":"hour_of_day"} instead\n'
        "    # TODO schemamig: drop of s.x: its values are gone when the hold is over; or is xs its new name? Then\n"
        '    #   rename={"s.x":"xs"} instead\n'
        '    evolution("t", drop=["hour", "s.x"]),\n',
    ),
    "conversion": (
        T("a STRING, b INT"),
        T("a INT, b INT NOT NULL, c INT NOT NULL"),
        "    # TODO schemamig: a changes from STRING to INT: is a CAST right for every value?\n"
        "    # TODO schemamig: c is new and NOT NULL, and older rows have no value for it: give it a DEFAULT, or let it be NULL\n"
        '    evolution("t"),\n',
    ),
    "removal": (
        T("a INT") + "CREATE TABLE old (a INT, b INT);",
        T("a INT") + "CREATE TABLE fresh (a INT, b INT);",
        "    # TODO schemamig: removal of old: all its rows are gone when the hold is over; or is fresh the new name of the\n"
        '    #   collection old? Then evolution("fresh", renamed_from="old")\n'
        '    removal("old"),\n',
    ),
    "rewrite": (
        T("a STRING, gone INT NOT NULL, `order` SMALLINT, tags ARRAY<STRING>") + "",
        "CREATE TABLE t (a DATE, `order` INT, tags ARRAY<INT>, d INT NOT NULL, e STRING DEFAULT 'x') PARTITIONED BY (d);",
        """\
    # TODO schemamig: rewrite of t (partition by (d)): do up and down say what is meant?
    # TODO schemamig: gone is not copied: its values are gone when the hold is over; or is d its new name?
    # TODO schemamig: up: a is cast from STRING to DATE: is that right for every value?
    # TODO schemamig: up: tags is cast from ARRAY<STRING> to ARRAY<INT>; fields of structs are cast by position
    # TODO schemamig: up: d is new: which value do the rows get that are there?
    # TODO schemamig: down: a is cast from DATE to STRING: is that right for every value?
    # TODO schemamig: down: gone is new: which value do the rows get that are there?
    # TODO schemamig: down: order is cast from INT to SMALLINT: is that right for every value?
    # TODO schemamig: down: tags is cast from ARRAY<INT> to ARRAY<STRING>; fields of structs are cast by position
    rewrite(
        "t",
        up=\"\"\"
            SELECT
              CAST(a AS DATE) AS a,
              CAST(`order` AS INT) AS `order`,
              CAST(tags AS ARRAY<INT>) AS tags,
              CAST(NULL AS INT) AS d,
              CAST('x' AS STRING) AS e
            FROM {t}
        \"\"\",
        down=\"\"\"
            SELECT
              CAST(a AS STRING) AS a,
              CAST(NULL AS INT) AS gone,
              CAST(`order` AS SMALLINT) AS `order`,
              CAST(tags AS ARRAY<STRING>) AS tags
            FROM {t}
        \"\"\",
    ),
""",
    ),
}


@pytest.mark.parametrize("name", DRAFTS)
def test_draft(name: str) -> None:
    old, new, expected = DRAFTS[name]
    assert text_of(old, new) == expected


def test_the_whole_module() -> None:
    assert module_text('Says "why" in C:\\x', drafted(T("a INT"), T("a INT, b INT"))) == (
        '"""Says "why" in C:\\\\x.\n\nWhy: TODO say why, for the reader in two years.\n"""\n\n'
        'from airflow_provider_schemamig import evolution\n\nSTEPS = [\n    evolution("t"),\n]\n'
    )
    assert module_text("Nothing!", ()) == '"""Nothing!\n\nWhy: TODO say why, for the reader in two years.\n"""\n\nSTEPS = []\n'


# --- questions ----------------------------------------------------------------------------------------------------------------------


class Answers:
    """Answers yes to the pairs given, and keeps what was asked."""

    def __init__(self, *yes: tuple[str, str]) -> None:
        self.yes = yes
        self.asked: list[str] = []

    def __call__(self, question: RenameQuestion) -> bool:
        self.asked.append(question.text)
        return (question.old, question.new) in self.yes


def test_a_rename_that_is_confirmed_leaves_no_question() -> None:
    answers = Answers(("hour", "hour_of_day"))
    found = text_of(T("a INT, hour INT"), T("a INT, minute INT, hour_of_day INT"), answers)
    assert found == '    evolution("t", rename={"hour": "hour_of_day"}),\n'
    assert answers.asked == ["is hour_of_day the new name of t.hour?"]  # the likeliest first


def test_a_rename_that_is_denied_is_a_drop() -> None:
    answers = Answers()
    found = text_of(T("a INT, hour INT"), T("a INT, minute INT, hour_of_day BIGINT, x STRING"), answers)
    assert found == '    # TODO schemamig: drop of hour: its values are gone when the hold is over\n    evolution("t", drop=["hour"]),\n'
    assert answers.asked == ["is hour_of_day the new name of t.hour?", "is minute the new name of t.hour?"]


def test_a_collection_that_is_renamed() -> None:
    old, new = "CREATE TABLE old (a INT, b INT, c INT);", "CREATE TABLE fresh (a INT, b INT, d STRING);"
    answers = Answers(("old", "fresh"))
    assert text_of(old, new, answers) == (
        "    # TODO schemamig: drop of c: its values are gone when the hold is over\n"
        '    evolution("fresh", drop=["c"], renamed_from="old"),\n'
    )
    assert answers.asked == ["is fresh the new name of the collection old?"]


def test_a_collection_is_renamed_once() -> None:
    old = "CREATE TABLE p (a INT, b INT); CREATE TABLE q (a INT, b INT);"
    found = text_of(old, "CREATE TABLE r (a INT, b INT);", Answers(("p", "r"), ("q", "r")))
    assert found.endswith(
        'evolution("r", renamed_from="p"),\n    # TODO schemamig: removal of q: all its rows are gone when the hold is over\n'
        '    removal("q"),\n'
    )


def test_a_name_is_given_once() -> None:
    answers = Answers(("a", "c"), ("b", "c"))
    found = text_of(T("a INT, b INT, k STRING"), T("c INT, k STRING"), answers)
    assert found.endswith('    evolution("t", rename={"a": "c"}, drop=["b"]),\n')
    assert answers.asked == ["is c the new name of t.a?"]


def test_a_rename_within_a_rewrite() -> None:
    found = text_of(T("a INT, b INT, k STRING"), T("a INT, c INT, k STRING").replace(";", " PARTITIONED BY (k);"), Answers(("b", "c")))
    assert "b AS c," in found and "c AS b," in found and "not copied" not in found


# --- any two schemas ----------------------------------------------------------------------------------------------------------------


def decided(text: str) -> str:
    """The module with every question decided: its comments deleted, the reason given."""
    return re.sub(r"^    #.*\n", "", text, flags=re.MULTILINE).replace("Why: TODO", "Why: because")


def refusals_of(old: Sequence[Declaration], new: Sequence[Declaration], drafts: Sequence[DraftStep]) -> Iterator[Refusal]:
    text = module_text("Any change", drafts)
    open_questions: list[Refusal] = []
    read_module(text, FILE, open_questions)
    assert {type(refusal) for refusal in open_questions} == {UnfinishedMigration}
    assert len(open_questions) == 1 + sum(len(draft.questions) for draft in drafts)
    refusals: list[Refusal] = []
    migration = read_module(decided(text), FILE, refusals)
    assert refusals == []
    assert isinstance(migration, Migration)
    assert migration.steps == tuple(draft.step for draft in drafts)
    release = release_of(("1.0.0", old, ()), ("1.1.0", new, ()))
    yield from validate_chain(type(release)(release.path, "lake", v("1.1.0"), v("1.0.0"), release.snapshots, {v("1.1.0"): migration}))


@settings(max_examples=examples(15), deadline=None)
@given(evolved=evolutions(), answers=st.none() | st.lists(st.booleans(), max_size=6))
def test_a_draft_of_any_evolution_passes_its_check(evolved: Evolved, answers: list[bool] | None) -> None:
    given_answers = iter(answers or ())
    ask: Ask | None = None if answers is None else (lambda question: next(given_answers, False))
    drafts = draft_steps({NAME: evolved.old}, {NAME: evolved.new}, ask)
    assert list(refusals_of([evolved.old], [evolved.new], drafts)) == []


@settings(max_examples=examples(10), deadline=None)
@given(old=declarations(), new=declarations())
def test_a_draft_between_strangers_passes_its_check(old: Declaration, new: Declaration) -> None:
    drafts = draft_steps({NAME: old}, {NAME: new})
    assert list(refusals_of([old], [new], drafts)) == []
