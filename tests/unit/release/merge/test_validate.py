"""Steps against the difference of two snapshots: each refusal, and what is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from airflow_provider_schemamig import evolution, removal, replacement, rewrite
from airflow_provider_schemamig.core.release.merge.validate import validate_chain
from airflow_provider_schemamig.core.release.steps import Step
from airflow_provider_schemamig.core.schema.model import Array, Declaration, Field, ForeignKey, Primitive, Struct
from tests.unit.release.support import release_of, struct, table, typed

A = table("a", "x int", "y string")
B = table("b", "n int")
NESTED = table("a", struct("s", "p int", "q int"), "x int")
TAGS = table("a", typed("tags", Array(Struct((Field("u", Primitive("int")), Field("w", Primitive("int")))))))
TAGS2 = table("a", typed("tags", Array(Struct((Field("u2", Primitive("int")),)))))

#: C refers to D by x.
D = table("d", "x int", "y int")
C = replace(table("c", "n int"), foreign_keys=(ForeignKey(("n",), D.name, ("x",)),))
D_EXCHANGED = table("d", "y int", "x int")
EXCHANGE = evolution("d", rename={"x": "y", "y": "x"})

Case = tuple[Sequence[Declaration], Sequence[Declaration], Sequence[Step]]

GOOD: dict[str, Case] = {
    "nothing": ([A], [A], []),
    "order only": ([A], [table("a", "y string", "x int")], []),
    "new collection": ([A], [A, B], []),
    "add needs an evolution": ([A], [table("a", "x int", "y string", "z int")], [evolution("a")]),
    "widen and relax": ([table("a", "x int!")], [table("a", "x bigint")], [evolution("a")]),
    "rename": ([A], [table("a", "z int", "y string")], [evolution("a", rename={"x": "z"})]),
    "drop": ([A], [table("a", "y string")], [evolution("a", drop=["x"])]),
    "swap": ([A], [table("a", "y int", "x string")], [evolution("a", rename={"x": "y", "y": "x"})]),
    "rename onto a dropped name": ([A], [table("a", "y int")], [evolution("a", rename={"x": "y"}, drop=["y"])]),
    "rename, and a new column of the old name": ([A], [table("a", "z int", "x int", "y string")], [evolution("a", rename={"x": "z"})]),
    "nested": (
        [NESTED],
        [table("a", struct("t", "r int"), "x int")],
        [evolution("a", rename={"s": "t", "s.p": "r"}, drop=["s.q"])],
    ),
    "through arrays": ([TAGS], [TAGS2], [evolution("a", rename={"tags.element.u": "u2"}, drop=["tags.element.w"])]),
    "online is the plan's business": ([A], [table("a", "x int!", "y string", "z int=1")], [evolution("a")]),
    "renamed collection": ([A], [table("c", "x int", "y string")], [evolution("c", renamed_from="a")]),
    "renamed and evolved": ([A], [table("c", "x2 bigint", "y string")], [evolution("c", renamed_from="a", rename={"x": "x2"})]),
    "removal": ([A, B], [A], [removal("b")]),
    "replacement": ([A, B], [A, table("b", "n string")], [replacement("b", fill="SELECT y AS n FROM {a}")]),
    "replacement from itself": ([B], [table("b", "n string")], [replacement("b", fill="SELECT string(n) AS n FROM {b}")]),
    "referred to by a key that goes": ([C, D], [replace(C, foreign_keys=()), D_EXCHANGED], [evolution("c"), EXCHANGE]),
    "others are renamed than what a key refers to": ([C, D], [C, table("d", "x int", "z int")], [evolution("d", rename={"y": "z"})]),
    "a key follows its own columns": (
        [C, D],
        [replace(table("c", "m int"), foreign_keys=(ForeignKey(("m",), D.name, ("x",)),)), D],
        [evolution("c", rename={"n": "m"})],
    ),
    "rewrite": ([B], [table("b", "n string")], [rewrite("b", up="SELECT string(n) AS n FROM {b}", down="SELECT int(n) AS n FROM {b}")]),
    "down sees this release": (
        [B],
        [table("b", "n string"), A],
        [rewrite("b", up="SELECT string(n) AS n FROM {b}", down="SELECT a.x AS n FROM {b} JOIN {a} a ON a.y = {b}.n", lookups=["a"])],
    ),
}

BAD: dict[str, tuple[Case, list[str], str]] = {
    "change without step": (([A], [table("a", "x bigint", "y string")], []), ["unexplained_change"], "change_type x"),
    "names exchanged that a key refers to": (([C, D], [C, D_EXCHANGED], [EXCHANGE]), ["reference_moved"], "refers to d.x"),
    "a name that a key refers to is another column's": (
        ([C, D], [C, table("d", "x int")], [evolution("d", rename={"y": "x"}, drop=["x"])]),
        ["reference_moved"],
        "add it in the next one",
    ),
    "the same, and the key's own column is renamed": (
        (
            [C, D],
            [replace(table("c", "m int"), foreign_keys=(ForeignKey(("m",), D.name, ("x",)),)), D_EXCHANGED],
            [evolution("c", rename={"n": "m"}), EXCHANGE],
        ),
        ["reference_moved"],
        "FOREIGN KEY (m)",
    ),
    "collection gone": (([A, B], [A], []), ["removal_not_named"], "removal("),
    "step without change": (([A], [A], [evolution("a")]), ["step_explains_nothing"], "evolution"),
    "step for order": (([A], [table("a", "y string", "x int")], [evolution("a")]), ["step_explains_nothing"], "evolution"),
    "replacement without change": (([A], [A], [replacement("a")]), ["step_explains_nothing"], "replacement"),
    "rewrite without change": (([A], [A], [rewrite("a", up="SELECT * FROM {a}")]), ["step_explains_nothing"], "rewrite"),
    "unknown collection": (([A], [A], [removal("aa")]), ["unknown_collection"], "Did you mean a?"),
    "unknown renamed_from": (([A], [A, B], [evolution("b", renamed_from="c")]), ["unknown_collection"], "'c'"),
    "step for a new collection": (([A], [A, B], [evolution("b")]), ["step_for_new_collection"], "new in 1.1.0"),
    "empty replacement of a new collection": (([A], [A, B], [replacement("b")]), ["step_for_new_collection"], "replacement(..., fill=...)"),
    "fill of a new collection from itself": (
        ([A], [A, B], [replacement("b", fill="SELECT x FROM {b}")]),
        ["unknown_placeholder"],
        "release 1.0.0, whose collections it sees",
    ),
    "two steps": (([A], [table("a", "x bigint", "y string")], [evolution("a"), replacement("a")]), ["duplicate_steps"], "second step"),
    "renamed and removed": (
        ([A], [table("c", "x int", "y string")], [evolution("c", renamed_from="a"), removal("a")]),
        ["duplicate_steps"],
        "second step",
    ),
    "renamed twice": (
        ([A], [table("c", "x int", "y string"), table("d", "x int", "y string")], [evolution(n, renamed_from="a") for n in "cd"]),
        ["duplicate_steps"],
        "second step",
    ),
    "drop not named": (([A], [table("a", "y string")], [evolution("a")]), ["unnamed_drop"], "x is gone"),
    "nested drop not named": (([NESTED], [table("a", struct("s", "p int"), "x int")], [evolution("a")]), ["unnamed_drop"], "s.q is gone"),
    "rename not named": (([A], [table("a", "z int", "y string")], [evolution("a")]), ["unnamed_drop"], "rename={old: new}"),
    "drop of what stays": (
        ([A], [table("a", "x bigint", "y string")], [evolution("a", drop=["y"])]),
        ["step_not_done"],
        "y is dropped (it is still declared)",
    ),
    "drop of a part of what is dropped": (
        ([NESTED], [table("a", "x int")], [evolution("a", drop=["s", "s.q"])]),
        ["step_not_done"],
        "naming s, which it is part of, is enough",
    ),
    "drop of the unknown": (
        ([A], [table("a", "x bigint", "y string")], [evolution("a", drop=["zz"])]),
        ["unknown_path"],
        "drop names zz",
    ),
    "rename of the unknown": (
        ([A], [table("a", "x bigint", "y string")], [evolution("a", rename={"q": "z"})]),
        ["unknown_path"],
        "names q",
    ),
    "rename to the undeclared": (
        ([A], [table("a", "x bigint", "y string")], [evolution("a", rename={"y": "z"})]),
        ["step_not_done"],
        "to z",
    ),
    "removal of what stays": (([A], [A], [removal("a")]), ["removed_but_declared"], "still declares it"),
    "evolution of what is gone": (([A, B], [A], [evolution("b")]), ["step_not_done"], "goes on"),
    "replacement of what is gone": (([A, B], [A], [replacement("b")]), ["step_not_done"], "goes on"),
    "renamed onto a name in use": (
        ([A, B], [table("b", "x int", "y string")], [evolution("b", renamed_from="a")]),
        ["collection_name_reused"],
        "1.0.0 has one too",
    ),
    "renamed and still declared": (
        ([A], [A, table("c", "x int", "y string")], [evolution("c", renamed_from="a")]),
        ["collection_name_reused"],
        "still declared",
    ),
    "evolution that needs a rewrite": (
        ([NESTED], [table("a", struct("s", typed("p", Array(Primitive("int"))), "q int"), "x int")], [evolution("a")]),
        ["needs_rewrite"],
        "change_type s.p",
    ),
    "a default for a column whose name is not free yet": (
        ([A], [table("a", "z int", "y string", "x int=1")], [evolution("a", rename={"x": "z"})]),
        ["name_taken"],
        "x",
    ),
    "fill that is no SQL": (
        ([A, B], [A, table("b", "n string")], [replacement("b", fill="SELECT y AS n\nFROM {a} WHERE (")]),
        ["query_syntax"],
        "line 2, column",
    ),
    "unknown placeholder": (
        ([A, B], [A, table("b", "n string")], [replacement("b", fill="SELECT y AS n FROM {c}")]),
        ["unknown_placeholder"],
        "{c}, and release 1.0.0",
    ),
    "fill sees the release before": (
        ([B], [A, table("b", "n string")], [replacement("b", fill="SELECT y AS n FROM {a}")]),
        ["unknown_placeholder"],
        "{a}",
    ),
    "down sees this release only": (
        (
            [B, A],
            [table("b", "n string")],
            [
                removal("a"),
                rewrite("b", up="SELECT string(n) AS n FROM {b}", down="SELECT int({b}.n) AS n FROM {b} JOIN {a}", lookups=["a"]),
            ],
        ),
        ["unknown_placeholder"],
        "release 1.1.0",
    ),
    "a rewrite that counts": (
        ([B], [table("b", "n string")], [rewrite("b", up="SELECT n,\n  count(*) AS m FROM {b}", down="SELECT int(n) AS n FROM {b}")]),
        ["not_row_local"],
        "up, line 2, column 3 of the query: the aggregate or window function count",
    ),
    "a rewrite's columns": (
        ([B], [table("b", "n string")], [rewrite("b", up="SELECT n AS m FROM {b}", down="SELECT int(n) AS n, 1 AS k FROM {b}")]),
        ["wrong_columns", "wrong_columns"],
        "missing n; unexpected m",
    ),
    "a lookup that nothing reads": (
        ([A, B], [A, table("b", "n string")], [rewrite("b", up="SELECT string(n) AS n FROM {b}", lookups=["a"])]),
        ["lookup_not_read"],
        "lookups names a",
    ),
    "a table that is no collection": (
        ([A, B], [A, table("b", "n string")], [replacement("b", fill="SELECT y AS n FROM a")]),
        ["table_not_placeholder"],
        "'a'",
    ),
    "several at once": (
        ([A, B, table("c", "x int")], [table("a", "z int"), B], [evolution("a", rename={"y": "q"}), evolution("b"), removal("nope")]),
        ["step_not_done", "unnamed_drop", "step_explains_nothing", "unknown_collection", "removal_not_named"],
        "",
    ),
}


@pytest.mark.parametrize("case", GOOD.values(), ids=GOOD)
def test_validate_good(case: Case) -> None:
    old, new, steps = case
    assert validate_chain(release_of(("1.0.0", old, []), ("1.1.0", new, steps))) == ()


@pytest.mark.parametrize("case, codes, says", BAD.values(), ids=BAD)
def test_validate_bad(case: Case, codes: list[str], says: str) -> None:
    old, new, steps = case
    refusals = validate_chain(release_of(("1.0.0", old, []), ("1.1.0", new, steps)))
    assert [refusal.code for refusal in refusals] == codes
    assert says in " ".join(map(str, refusals))
    for refusal in refusals:
        assert refusal.collection
        assert refusal.next_action
        assert "migrations/v1_1_0.py" in refusal.message or refusal.code == "name_taken"  # the schema layer's own


def test_each_adjacent_pair_is_looked_at() -> None:
    wide = table("a", "x bigint", "y string")
    refusals = validate_chain(
        release_of(("1.0.0", [A], []), ("1.1.0", [wide], []), ("1.2.0", [wide], [evolution("a")]), ("1.3.0", [A], []))
    )
    assert [(r.code, getattr(r, "version", None) and str(getattr(r, "version", ""))) for r in refusals] == [
        ("unexplained_change", "1.1.0"),
        ("step_explains_nothing", "1.2.0"),
        ("unexplained_change", "1.3.0"),
    ]
