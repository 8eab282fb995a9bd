"""Rewrites among other steps, merged into one: what goes up, what comes back, what cannot.

tests/integration/transfer/test_rewrite_merge.py runs such queries on rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from airflow_provider_schemamig import evolution, replacement, rewrite
from airflow_provider_schemamig.core.names import CollectionName
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.release.merge.chain import RewriteStep, validate_chain
from airflow_provider_schemamig.core.release.merge.fills import fill_inputs, rewrite_inputs
from airflow_provider_schemamig.core.release.queries.query import bind_tables, body
from airflow_provider_schemamig.core.release.queries.row_local import RewriteQuery, check_rewrite_query
from airflow_provider_schemamig.core.release.steps import Step
from airflow_provider_schemamig.core.schema.model import Declaration
from tests.unit.release.support import down_inputs, release_of, steps_of, stops, table, v

UP, DOWN = "SELECT string(x) AS x, p FROM {a}", "SELECT int(x) AS x, p FROM {a}"
X, XP, SP = table("a", "x int"), table("a", "x int", "p int"), table("a", "x string", "p int")
TO_STRING = rewrite("a", up=f"{UP};\n", down=DOWN)


def folded(*versions: tuple[list[Declaration], list[Step]], source: str = "1.0.0") -> tuple[Release, RewriteStep]:
    """The rewrite of a chain of valid releases 1.0.0, 1.1.0, ...; its queries are such as ``check`` would let pass."""
    release = release_of(*((f"1.{number}.0", declared, steps) for number, (declared, steps) in enumerate(versions)))
    assert validate_chain(release) == ()
    [step] = (step for step in steps_of(release, source) if isinstance(step, RewriteStep))
    before = {**release.declarations(v(source)), step.old.name: step.old}
    inputs = {name: _shape(columns) for name, columns in fill_inputs(release, v(source), step)}
    for text, own, known, gives in (
        (step.up, step.old.name, {name: inputs.get(name, declared) for name, declared in before.items()}, step.new),
        (step.down, step.collection, release.declarations(release.version), step.old),
    ):
        if text is not None:
            query = RewriteQuery(text=text, own=own, lookups=known, known=known, gives=gives, file="f", line=1, argument="up")
            assert [str(refusal) for refusal in check_rewrite_query(query)] == []
    assert (step.down is None) == (step.no_way_back is not None)
    return release, step


def _shape(columns: str) -> Declaration:
    """The names of a SELECT list; types do not matter here."""
    return table("shape", *(f"{column.rpartition('`')[0].rpartition('`')[2]} int" for column in columns.split(", ")))


def test_a_rewrite_alone() -> None:
    release, step = folded(([XP], []), ([SP], [TO_STRING]))
    assert step == RewriteStep(CollectionName("a"), XP, SP, UP, DOWN, v("1.1.0"))
    assert fill_inputs(release, v("1.0.0"), step) == (("a", "`x`, `p`"),)
    assert rewrite_inputs(release, v("1.0.0"), step) == ("`x`, `p`", ())
    assert down_inputs(release, step) == ("`x`, `p`", ())


def test_evolutions_before_are_in_the_inputs_and_undone_on_the_way_back() -> None:
    release, step = folded(([X], []), ([XP], [evolution("a")]), ([SP], [TO_STRING]))
    assert (step.up, step.version, step.old, step.new) == (UP, v("1.2.0"), X, SP)
    assert rewrite_inputs(release, v("1.0.0"), step) == ("`x`, CAST(NULL AS INT) AS `p`", ())
    assert step.down == f"SELECT `x` FROM (\n{DOWN}\n) AS shown"
    assert step.lost_on_way_back == ()


def test_evolutions_after_are_around_it_and_below_its_way_back() -> None:
    head = table("a", "y string", "q int")
    release, step = folded(([XP], []), ([SP], [TO_STRING]), ([head], [evolution("a", rename={"x": "y"}, drop=["p"])]))
    assert step.up == f"SELECT `x` AS `y`, CAST(NULL AS INT) AS `q` FROM (\n{UP}\n) AS shown"
    assert step.down == "SELECT int(x) AS x, p FROM (\nSELECT `y` AS `x`, CAST(NULL AS INT) AS `p` FROM {a}\n) AS `a`"
    assert step.lost_on_way_back == ("p",)
    assert down_inputs(release, step) == ("`y`, `q`", ())


def test_rewrites_in_a_row() -> None:
    middle, head = table("a", "x string"), table("a", "x int", "sign int")
    second = rewrite("a", up="SELECT int({a}.x) AS x, sign({a}.x) AS sign FROM {a}", down="SELECT string(x) AS x FROM {a} AS t")
    first = rewrite("a", up="SELECT string(x) AS x FROM {a} WHERE x > 0 -- all", down="SELECT int(x) AS x FROM {a}", cardinality="any")
    _, step = folded(([X], []), ([middle], [first]), ([head], [second]))
    assert step.up == "SELECT int(`a`.x) AS x, sign(`a`.x) AS sign FROM (\nSELECT string(x) AS x FROM {a} WHERE x > 0 -- all\n) AS `a`"
    assert step.down == "SELECT int(x) AS x FROM (\nSELECT string(x) AS x FROM {a} AS t\n) AS `a`"
    assert (step.cardinality, step.version) == ("any", v("1.1.0"))


def test_order_comments_and_constraints_around_it_change_nothing() -> None:
    reordered = table("a", "p int", "x int=3")
    _, step = folded(([XP], []), ([reordered], [evolution("a")]), ([table("a", "p int", "x string")], [TO_STRING]), ([SP], []))
    assert (step.up, step.down) == (UP, DOWN)


def test_a_renamed_collection() -> None:
    c, d = table("c", "x int", "p int"), table("d", "x string", "p int")
    release, step = folded(
        ([c], []), ([XP], [evolution("a", renamed_from="c")]), ([SP], [TO_STRING]), ([d], [evolution("d", renamed_from="a")])
    )
    assert (step.collection, step.old, step.renamed_from) == ("d", c, "c")
    assert step.up == "SELECT `x`, `p` FROM (\nSELECT string(x) AS x, p FROM {c}\n) AS shown"
    assert step.down == "SELECT `x`, `p` FROM (\nSELECT int(x) AS x, p FROM (\nSELECT `x`, `p` FROM {d}\n) AS `a`\n) AS shown"
    assert rewrite_inputs(release, v("1.0.0"), step) == ("`x`, `p`", ())
    assert down_inputs(release, step) == ("`x`, `p`", ())


B, WIDER = table("b", "k int", "n string"), table("b", "k bigint", "n string", "m int")
JOINED = rewrite(
    "a",
    up="SELECT {b}.n AS x FROM {a} JOIN {b} ON {a}.x = {b}.k",
    down="SELECT int(b.k) AS x FROM {a} LEFT JOIN {b} AS b ON b.n = {a}.x",
    lookups=["b"],
)


def test_lookups_are_shown_as_the_release_before_had_them() -> None:
    s = table("a", "x string")
    release, step = folded(([X, B], []), ([X, WIDER], [evolution("b")]), ([s, WIDER], [JOINED]))
    assert step.lookups == ("b",)
    assert rewrite_inputs(release, v("1.0.0"), step) == ("`x`", (("b", "CAST(`k` AS BIGINT) AS `k`, `n`, CAST(NULL AS INT) AS `m`"),))
    assert step.down == JOINED.down
    assert down_inputs(release, step) == ("`x`", (("b", "`k`, `n`, `m`"),))


def test_lookups_of_a_later_rewrite_and_of_an_earlier_way_back() -> None:
    s, head = table("a", "x string"), table("a", "x int")
    c = table("c", "k int", "n string", "m int")
    back = rewrite("a", up="SELECT {c}.k AS x FROM {a} JOIN {c} ON {a}.x = {c}.n", down="SELECT string(x) AS x FROM {a}", lookups=["c"])
    release, step = folded(([X, B], []), ([s, B], [JOINED]), ([s, c], [evolution("c", renamed_from="b")]), ([head, c], [back]))
    assert step.up == (
        "SELECT `c`.k AS x FROM (\nSELECT {b}.n AS x FROM {a} JOIN {b} ON {a}.x = {b}.k\n) AS `a` JOIN "
        "(\nSELECT `k`, `n`, CAST(NULL AS INT) AS `m` FROM {b}\n) AS `c` ON `a`.x = `c`.n"
    )
    assert step.down == (
        "SELECT int(b.k) AS x FROM (\nSELECT string(x) AS x FROM {a}\n) AS `a` LEFT JOIN (\nSELECT `k`, `n` FROM {c}\n) AS b ON b.n = `a`.x"
    )
    assert (step.lookups, rewrite_inputs(release, v("1.0.0"), step)) == (("b",), ("`x`", (("b", "`k`, `n`"),)))
    assert down_inputs(release, step) == ("`x`", (("c", "`k`, `n`, `m`"),))


NO_WAY_BACK: dict[str, tuple[list[tuple[list[Declaration], list[Step]]], str]] = {
    "no down": ([([XP], []), ([SP], [rewrite("a", up=UP)])], "the rewrite of 1.1.0 has no down"),
    "no down in between": (
        [([XP], []), ([SP], [rewrite("a", up=UP)]), ([XP], [rewrite("a", up=DOWN, down=UP)])],
        "the rewrite of 1.1.0 has no down",
    ),
    "widened after": (
        [([XP], []), ([SP], [TO_STRING]), ([table("a", "x string", "p bigint")], [evolution("a")])],
        "p cannot be had back: bigint became int",
    ),
    "relaxed before": (
        [([table("a", "x int!", "p int")], []), ([XP], [evolution("a")]), ([SP], [TO_STRING])],
        "x cannot be had back: it became NOT NULL",
    ),
    "NOT NULL dropped": (
        [([table("a", "x int", "p int", "z int!")], []), ([XP], [evolution("a", drop=["z"])]), ([SP], [TO_STRING])],
        "z is dropped on the way",
    ),
    "its lookup is narrowed": (
        [([X, B], []), ([table("a", "x string"), B], [JOINED]), ([table("a", "x string"), WIDER], [evolution("b")])],
        "k cannot be had back",
    ),
    "its lookup loses a column": (
        [
            ([X, B], []),
            ([table("a", "x string"), B], [JOINED]),
            ([table("a", "x string"), table("b", "k int")], [evolution("b", drop=["n"])]),
        ],
        "reads b, which loses n later",
    ),
    "its lookup is made anew": (
        [([X, B], []), ([table("a", "x string"), B], [JOINED]), ([table("a", "x string"), table("b", "k string")], [replacement("b")])],
        "whose rows a later step replaces",
    ),
}


@pytest.mark.parametrize("versions, says", NO_WAY_BACK.values(), ids=NO_WAY_BACK)
def test_no_way_back(versions: list[tuple[list[Declaration], list[Step]]], says: str) -> None:
    _, step = folded(*versions)
    assert step.down is None
    assert says in (step.no_way_back or "")


def test_a_dropped_default_comes_back_as_null() -> None:
    _, step = folded(([table("a", "x int", "p int", "z int=5")], []), ([XP], [evolution("a", drop=["z"])]), ([SP], [TO_STRING]))
    assert step.down == f"SELECT `x`, `p`, CAST(NULL AS INT) AS `z` FROM (\n{DOWN}\n) AS shown"
    assert step.lost_on_way_back == ("z",)


LATER = rewrite("a", up="SELECT {b}.n AS x FROM {a} JOIN {b} ON {a}.x = {b}.n", lookups=["b"])

STOPS: dict[str, tuple[list[tuple[list[Declaration], list[Step]]], str, str]] = {
    "a default before": (
        [([X], []), ([table("a", "x int", "p int=5")], [evolution("a")]), ([SP], [TO_STRING])],
        "p changes before",
        "1.1.0",
    ),
    "a default after": (
        [([XP], []), ([SP], [TO_STRING]), ([table("a", "x string", "p int", "q int=5")], [evolution("a")])],
        "it is rewritten in 1.1.0, and later q changes: it is added with DEFAULT 5",
        "1.1.0",
    ),
    "NOT NULL in between": (
        [
            ([XP], []),
            ([SP], [TO_STRING]),
            ([table("a", "x string!", "p int")], [evolution("a")]),
            ([XP], [rewrite("a", up=DOWN)]),
        ],
        "later x changes",
        "1.1.0",
    ),
    "a younger lookup": (
        [([X], []), ([X, B], []), ([table("a", "x string"), B], [JOINED])],
        "reads b, which is younger",
        "1.1.0",
    ),
    "a lookup of the second rewrite is younger than the first": (
        [([XP], []), ([SP], [TO_STRING]), ([SP, B], []), ([table("a", "x string"), B], [LATER])],
        "reads b, which is younger",
        "1.2.0",
    ),
    "a lookup is made anew in between": (
        [
            ([XP, table("b", "k string")], []),
            ([SP, table("b", "k string")], [TO_STRING]),
            ([SP, B], [replacement("b")]),
            ([table("a", "x string"), B], [LATER]),
        ],
        "whose rows an earlier step replaces",
        "1.2.0",
    ),
}


@pytest.mark.parametrize("versions, says, stop", STOPS.values(), ids=STOPS)
def test_rewrites_stop_the_merge(versions: Sequence[tuple[list[Declaration], list[Step]]], says: str, stop: str) -> None:
    release = release_of(*((f"1.{number}.0", declared, steps) for number, (declared, steps) in enumerate(versions)))
    assert validate_chain(release) == ()
    refusal = stops(release)
    assert says in refusal.reason
    assert str(refusal.stop) == stop


@pytest.mark.parametrize(
    "query, expected",
    [
        ("SELECT 1;", "SELECT 1"),
        ("SELECT 1 ; -- done; really", "SELECT 1"),
        ("SELECT ';' AS x -- no;\nFROM {a}", "SELECT ';' AS x -- no;\nFROM {a}"),
        ("  SELECT 1 -- why", "SELECT 1 -- why"),
    ],
)
def test_the_body_of_a_merged_rewrite(query: str, expected: str) -> None:
    assert body(query) == expected


def test_bind_tables_keeps_aliases_and_what_is_not_bound() -> None:
    a, b = CollectionName("a"), CollectionName("b")
    query = "SELECT {a}.x, {b}.y FROM {a} JOIN {b} AS t JOIN {c} LATERAL VIEW explode({a}.z) e"
    found = bind_tables(query, {a: "SELECT 1 AS {a}", b: "SELECT 2"})
    assert found == (
        "SELECT `a`.x, `b`.y FROM (\nSELECT 1 AS {a}\n) AS `a` JOIN (\nSELECT 2\n) AS t JOIN {c} LATERAL VIEW explode(`a`.z) e"
    )
