"""Steps of several releases as one."""

from __future__ import annotations

import dataclasses

import pytest

from airflow_provider_schemamig import evolution, removal, replacement
from airflow_provider_schemamig.core.release.folder.read import Release
from airflow_provider_schemamig.core.release.merge.chain import Chain, Create, Evolve, Remove, Replace, merge, validate_chain
from airflow_provider_schemamig.core.release.merge.errors import DowngradeRefused, SourceBelowMinimum, StopInBetween, UnknownSourceVersion
from airflow_provider_schemamig.core.schema.model import ForeignKey, Key
from airflow_provider_schemamig.exceptions import Refusal, Refused
from tests.unit.release.support import release_of, steps_of, stops, struct, table, v

A = table("a", "x int", "y string")


# --- the ends ---------------------------------------------------------------------------------------------------------------------


def test_a_new_environment_is_created_at_head() -> None:
    b = table("b", "x int")
    release = release_of(("1.0.0", [A], []), ("1.1.0", [b, A], [evolution("a")]))
    assert merge(release, None) == Chain(None, v("1.1.0"), (Create(A.name, A), Create(b.name, b)))


def test_merge_nothing_to_do_at_head() -> None:
    release = release_of(("1.0.0", [A], []), ("1.1.0", [], [removal("a")]))
    assert steps_of(release, "1.1.0") == ()


@pytest.mark.parametrize(
    "source, kind",
    [("1.1.1", DowngradeRefused), ("2.0.0", DowngradeRefused), ("0.9.0", SourceBelowMinimum), ("1.0.1", UnknownSourceVersion)],
)
def test_sources_that_are_none(source: str, kind: type[Refusal]) -> None:
    release = release_of(("1.0.0", [A], []), ("1.1.0", [], [removal("a")]))
    with pytest.raises(kind) as refused:
        merge(release, v(source))
    assert source in refused.value.message


# --- evolutions -------------------------------------------------------------------------------------------------------------------


def test_renames_compose_at_any_depth() -> None:
    first = table("a", struct("s", "p int", struct("t", "q int")), "x int")
    second = table("a", struct("s2", "p2 int", struct("t", "q2 int")), "x int")
    third = table("a", struct("s2", "p3 int", struct("t3", "q2 int")), "x2 bigint")
    release = release_of(
        ("1.0.0", [first], []),
        ("1.1.0", [second], [evolution("a", rename={"s": "s2", "s.p": "p2", "s.t.q": "q2"})]),
        ("1.2.0", [third], [evolution("a", rename={"s2.p2": "p3", "s2.t": "t3", "x": "x2"})]),
    )
    [step] = steps_of(release)
    assert isinstance(step, Evolve)
    assert step.renames == {"s": "s2", "s.p": "p3", "s.t": "t3", "s.t.q": "q2", "x": "x2"}
    assert step.drops == ()
    assert (step.old, step.new, step.renamed_from) == (first, third, None)


def test_a_rename_back_is_none() -> None:
    release = release_of(
        ("1.0.0", [A], []),
        ("1.1.0", [table("a", "z int", "y string")], [evolution("a", rename={"x": "z"})]),
        ("1.2.0", [A], [evolution("a", rename={"z": "x"})]),
    )
    assert steps_of(release) == ()


def test_drops_are_united_and_named_by_the_source() -> None:
    first = table("a", "x int", "y string", struct("s", "p int", "q int"))
    release = release_of(
        ("1.0.0", [first], []),
        ("1.1.0", [table("a", "z int", "y string", struct("s", "q int"))], [evolution("a", rename={"x": "z"}, drop=["s.p"])]),
        ("1.2.0", [table("a", "y string", struct("s", "q int"))], [evolution("a", drop=["z"])]),
    )
    [step] = steps_of(release)
    assert isinstance(step, Evolve)
    assert (step.drops, step.renames) == (("s.p", "x"), {})


def test_a_name_may_go_from_one_column_to_another_by_renames() -> None:
    release = release_of(
        ("1.0.0", [A], []),
        ("1.1.0", [table("a", "z int", "y string")], [evolution("a", rename={"x": "z"})]),
        ("1.2.0", [table("a", "z int", "y string", "x string")], [evolution("a")]),
    )
    [step] = steps_of(release)
    assert isinstance(step, Evolve)
    assert step.renames == {"x": "z"}
    assert step.drops == ()


def test_added_and_dropped_on_the_way_is_nothing() -> None:
    release = release_of(
        ("1.0.0", [A], []),
        ("1.1.0", [table("a", "x int", "y string", "z int")], [evolution("a")]),
        ("1.2.0", [A], [evolution("a", drop=["z"])]),
    )
    assert steps_of(release) == ()


def test_a_renamed_collection_keeps_its_rows() -> None:
    release = release_of(
        ("1.0.0", [A], []),
        ("1.1.0", [table("b", "x int", "y string")], [evolution("b", renamed_from="a")]),
        ("1.2.0", [table("c", "x bigint", "y string")], [evolution("c", renamed_from="b")]),
    )
    [step] = steps_of(release)
    assert isinstance(step, Evolve)
    assert (step.collection, step.renamed_from, step.old.name) == ("c", "a", "a")


def test_renamed_away_and_back_is_nothing() -> None:
    release = release_of(
        ("1.0.0", [A], []),
        ("1.1.0", [table("b", "x int", "y string")], [evolution("b", renamed_from="a")]),
        ("1.2.0", [A], [evolution("a", renamed_from="b")]),
    )
    assert steps_of(release) == ()


def test_order_and_comments_need_no_step() -> None:
    release = release_of(("1.0.0", [A], []), ("1.1.0", [table("a", "y string", "x int")], []))
    assert steps_of(release) == ()


# --- evolutions that cannot be one ------------------------------------------------------------------------------------------------


def three(middle: str, last: str, *, first: str = "x int", drop: str | None = None) -> Release:
    """Column lists of ``a`` at three versions, separated by semicolons."""
    tables = [table("a", "k int", *filter(None, text.split(";"))) for text in (first, middle, last)]
    steps = [evolution("a", drop=[drop] if drop else []), evolution("a")]
    return release_of(("1.0.0", [tables[0]], []), ("1.1.0", [tables[1]], steps[:1]), ("1.2.0", [tables[2]], steps[1:]))


@pytest.mark.parametrize(
    "release, says",
    [
        (three("", "x int", drop="x"), "x is dropped on the way"),
        (three("", "x bigint", drop="x"), "x is dropped on the way"),
        (three("x int;n int", "x int;n int=5"), "n is added with DEFAULT NULL"),
        (three("x int;n int=5", "x int;n int=6"), "n is added with DEFAULT 5"),
        (three("x int;n int=5", "x int;n int"), "n is added with DEFAULT 5"),
        (three("x int", "x bigint", first="x double"), "change type through other values"),
        (three("x bigint", "x string", first="x int"), "change type through other values"),
        (three("x int;n int=5", "x int;n string=5"), "change type through other values"),
    ],
)
def test_rows_would_differ_from_step_by_step(release: Release, says: str) -> None:
    refusal = stops(release)
    assert says in refusal.reason
    assert (refusal.collection, refusal.stop, refusal.source, refusal.target) == ("a", v("1.1.0"), v("1.0.0"), v("1.2.0"))


@pytest.mark.parametrize(
    "release, changed",
    [
        (three("x bigint", "x decimal(25,0)"), True),
        (three("x int;n int", "x int;n bigint"), True),
        (three("x int;n int=5", "x bigint;n int=5"), True),
        (three("x int!", "x int"), False),
    ],
)
def test_merge_what_does_compose(release: Release, changed: bool) -> None:
    assert len(steps_of(release)) == changed


def test_a_name_that_is_needed_before_it_is_free() -> None:
    release = release_of(
        ("1.0.0", [A], []),
        ("1.1.0", [table("a", "z int", "y string")], [evolution("a", rename={"x": "z"})]),
        ("1.2.0", [table("a", "z int", "y string", "x int=1")], [evolution("a")]),
    )
    assert stops(release).stop == v("1.1.0")


def test_steps_that_only_together_need_a_rewrite() -> None:
    """A type changes through a shadow column only outside keys; each step alone can be done online."""
    middle = table("a", "x string", "y string")
    last = dataclasses.replace(middle, primary_key=Key(("x",)))
    release = release_of(("1.0.0", [A], []), ("1.1.0", [middle], [evolution("a")]), ("1.2.0", [last], [evolution("a")]))
    assert validate_chain(release) == ()
    assert "what only a rewrite can" in stops(release).reason


def test_dropped_and_added_again_inside_a_struct() -> None:
    whole, less = table("a", struct("s", "p int", "q int")), table("a", struct("s", "q int"))
    release = release_of(("1.0.0", [whole], []), ("1.1.0", [less], [evolution("a", drop=["s.p"])]), ("1.2.0", [whole], [evolution("a")]))
    assert "s.p is dropped on the way" in stops(release).reason


def test_the_stop_is_the_last_version_that_suits_all() -> None:
    without_x, without_y = table("a", "y string"), table("b", "x int")
    b = table("b", "x int", "y string")
    release = release_of(
        ("1.0.0", [A, b], []),
        ("1.1.0", [without_x, b], [evolution("a", drop=["x"])]),
        ("1.2.0", [without_x, without_y], [evolution("b", drop=["y"])]),
        ("1.3.0", [A, without_y], [evolution("a")]),
        ("1.4.0", [A, b], [evolution("b")]),
    )
    with pytest.raises(Refused) as refused:
        merge(release, v("1.0.0"))
    found = [refusal for refusal in refused.value.refusals if isinstance(refusal, StopInBetween)]
    assert [(refusal.collection, refusal.stop) for refusal in found] == [("a", v("1.2.0")), ("b", v("1.2.0"))]
    assert steps_of(release, "1.2.0")


def test_a_later_replacement_makes_it_mergeable_again() -> None:
    release = release_of(
        ("1.0.0", [A], []),
        ("1.1.0", [table("a", "y string")], [evolution("a", drop=["x"])]),
        ("1.2.0", [A], [evolution("a")]),
        ("1.3.0", [table("a", "x string")], [replacement("a")]),
    )
    [step] = steps_of(release)
    assert isinstance(step, Replace)
    assert step.new == table("a", "x string")


# --- collections that come and go -------------------------------------------------------------------------------------------------

B = table("b", "n int")
B2 = table("b", "n string")


def test_created_after_the_source_is_created_at_head() -> None:
    release = release_of(("1.0.0", [A], []), ("1.1.0", [A, B], []), ("1.2.0", [A, B2], [replacement("b")]))
    assert steps_of(release) == (Create(B.name, B2),)


def test_a_new_collection_is_filled_by_the_query_of_its_release() -> None:
    fill = "SELECT x AS n FROM {a}"
    release = release_of(("1.0.0", [A], []), ("1.1.0", [A, B], [replacement("b", fill=fill, snapshot=True)]))
    assert steps_of(release) == (Create(B.name, B, fill, True, v("1.1.0")),)
    assert merge(release, None).steps == (Create(A.name, A), Create(B.name, B))


def test_the_last_fill_of_a_collection_that_came_on_the_way_counts() -> None:
    first, last = replacement("b", fill="SELECT x AS n FROM {a}"), replacement("b", fill="SELECT y AS n FROM {a}")
    for on_the_way in ([], [first]):
        release = release_of(("1.0.0", [A], []), ("1.1.0", [A, B], on_the_way), ("1.2.0", [A, B2], [last]))
        assert steps_of(release) == (Create(B.name, B2, "SELECT y AS n FROM {a}", False, v("1.2.0")),)


def test_a_fill_goes_on_through_what_its_collection_gets_later() -> None:
    fill, wider = replacement("b", fill="SELECT x AS n FROM {a}"), table("b", "m bigint")
    release = release_of(("1.0.0", [A], []), ("1.1.0", [A, B], [fill]), ("1.2.0", [A, wider], [evolution("b", rename={"n": "m"})]))
    [step] = steps_of(release)
    assert isinstance(step, Create) and step.fill is not None
    assert "AS `m`" in step.fill and "SELECT x AS n FROM {a}" in step.fill


def test_a_fill_from_what_is_younger_than_the_source_stops_in_between() -> None:
    fill = replacement("c", fill="SELECT n AS x FROM {b}")
    release = release_of(("1.0.0", [A], []), ("1.1.0", [A, B], []), ("1.2.0", [A, B, table("c", "x int")], [fill]))
    assert stops(release).stop == v("1.1.0")


def test_created_then_removed_is_nothing() -> None:
    release = release_of(("1.0.0", [A], []), ("1.1.0", [A, B], []), ("1.2.0", [A], [removal("b")]))
    assert steps_of(release) == ()


def test_merge_removed() -> None:
    renamed = table("c", "n int")
    release = release_of(("1.0.0", [A, B], []), ("1.1.0", [A, renamed], [evolution("c", renamed_from="b")]), ("1.2.0", [A], [removal("c")]))
    assert steps_of(release) == (Remove(B.name, B),)


def test_removed_and_created_again_is_replaced() -> None:
    release = release_of(("1.0.0", [A, B], []), ("1.1.0", [A], [removal("b")]), ("1.2.0", [A, B], []))
    assert steps_of(release) == (Replace(B.name, B, B, None, False, None),)


def test_removed_created_again_and_filled() -> None:
    last = replacement("b", fill="SELECT y AS n FROM {a}")
    release = release_of(("1.0.0", [A, B], []), ("1.1.0", [A], [removal("b")]), ("1.2.0", [A, B], []), ("1.3.0", [A, B2], [last]))
    assert steps_of(release) == (Replace(B.name, B, B2, "SELECT y AS n FROM {a}", False, v("1.3.0")),)


def test_renamed_and_then_replaced_by_an_empty_table() -> None:
    moved, new = table("c", "n int"), table("c", "n string")
    release = release_of(("1.0.0", [B], []), ("1.1.0", [moved], [evolution("c", renamed_from="b")]), ("1.2.0", [new], [replacement("c")]))
    assert steps_of(release) == (Remove(B.name, B), Create(new.name, new))


def test_renamed_and_then_replaced_by_a_query() -> None:
    moved, new = table("c", "n int"), table("c", "n string")
    step = replacement("c", fill="SELECT string(n) AS n FROM {c}")
    release = release_of(("1.0.0", [B], []), ("1.1.0", [moved], [evolution("c", renamed_from="b")]), ("1.2.0", [new], [step]))
    assert stops(release).stop == v("1.1.0")


def test_a_new_collection_under_the_name_of_a_renamed_one() -> None:
    moved = table("c", "n int")
    release = release_of(("1.0.0", [B], []), ("1.1.0", [moved], [evolution("c", renamed_from="b")]), ("1.2.0", [moved, B], []))
    assert "another name now" in stops(release).reason


def test_a_collection_that_takes_the_name_of_a_removed_one() -> None:
    renamed = evolution("b", renamed_from="a")
    release = release_of(("1.0.0", [A, B], []), ("1.1.0", [A], [removal("b")]), ("1.2.0", [table("b", "x int", "y string")], [renamed]))
    assert "takes the name b" in stops(release).reason


def test_a_key_that_goes_and_comes_over_names_that_are_exchanged_meanwhile_stops_in_between() -> None:
    """One by one rows are asked when it comes."""
    d, exchanged = table("d", "x int", "y int"), table("d", "y int", "x int")
    plain = table("c", "n int")
    keyed = dataclasses.replace(plain, foreign_keys=(ForeignKey(("n",), d.name, ("x",)),))
    release = release_of(
        ("1.0.0", [keyed, d], []),
        ("1.1.0", [plain, exchanged], [evolution("c"), evolution("d", rename={"x": "y", "y": "x"})]),
        ("1.2.0", [keyed, exchanged], [evolution("c")]),
    )
    refusal = stops(release)
    assert (refusal.collection, refusal.stop) == ("c", v("1.1.0"))
    assert refusal.reason == "d.x, to which its FOREIGN KEY (n) refers, is another column by then"
    back = release_of(
        ("1.0.0", [keyed, d], []),
        ("1.1.0", [plain, exchanged], [evolution("c"), evolution("d", rename={"x": "y", "y": "x"})]),
        ("1.2.0", [keyed, d], [evolution("c"), evolution("d", rename={"x": "y", "y": "x"})]),
    )
    assert steps_of(back) == ()
