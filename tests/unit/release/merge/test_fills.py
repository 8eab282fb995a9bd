"""Replacements among other steps: which query counts, what it reads, what it gives."""

from __future__ import annotations

import pytest

from airflow_provider_schemamig import evolution, replacement, rewrite
from airflow_provider_schemamig.core.release.merge.chain import Replace
from airflow_provider_schemamig.core.release.merge.fills import fill_inputs
from airflow_provider_schemamig.core.release.steps import Step
from airflow_provider_schemamig.core.schema.model import Declaration
from tests.unit.release.support import release_of, steps_of, stops, table, v

A = table("a", "x int", "y string")

# --- replacement ------------------------------------------------------------------------------------------------------------------

STATS = table("stats", "n int")
FILL = "SELECT count(*) AS n, max(x) AS m FROM {a}"


def test_a_replacement_wins_over_everything_before_it() -> None:
    release = release_of(
        ("1.0.0", [A, STATS], []),
        ("1.1.0", [A, table("stats", "n bigint")], [evolution("stats")]),
        ("1.2.0", [A, table("stats", "n bigint", "m int")], [replacement("stats", fill=FILL, snapshot=True)]),
    )
    [step] = steps_of(release)
    assert step == Replace(STATS.name, STATS, table("stats", "n bigint", "m int"), FILL, True, v("1.2.0"))
    assert fill_inputs(release, v("1.0.0"), step) == (("a", "`x`, `y`"),)


def test_later_evolutions_are_part_of_an_empty_replacement() -> None:
    head = table("stats", "m int", "z int=5")
    release = release_of(
        ("1.0.0", [STATS], []),
        ("1.1.0", [table("stats", "n string")], [replacement("stats")]),
        ("1.2.0", [table("stats", "m string")], [evolution("stats", rename={"n": "m"})]),
        ("1.3.0", [head], [rewrite("stats", up="SELECT 1 AS m, 2 AS z FROM {stats}")]),
    )
    [step] = steps_of(release)
    assert step == Replace(STATS.name, STATS, head, None, False, v("1.1.0"))


def test_the_last_fill_wins() -> None:
    release = release_of(
        ("1.0.0", [A, STATS], []),
        ("1.1.0", [A, table("stats", "n bigint")], [replacement("stats", fill="SELECT 1 AS n")]),
        ("1.2.0", [A, table("stats", "n string")], [replacement("stats", fill="SELECT 'x' AS n")]),
    )
    [step] = steps_of(release)
    assert isinstance(step, Replace)
    assert (step.fill, step.fill_version) == ("SELECT 'x' AS n", v("1.2.0"))


def test_a_fill_is_projected_through_later_evolutions() -> None:
    head = table("stats", "total bigint", "late string")
    release = release_of(
        ("1.0.0", [A, STATS], []),
        ("1.1.0", [A, table("stats", "n int", "m int")], [replacement("stats", fill=f"{FILL};\n")]),
        ("1.2.0", [A, head], [evolution("stats", rename={"n": "total"}, drop=["m"])]),
    )
    [step] = steps_of(release)
    assert isinstance(step, Replace)
    expected = f"SELECT CAST(`n` AS BIGINT) AS `total`, CAST(NULL AS STRING) AS `late` FROM (\n{FILL}\n) AS shown"
    assert (step.fill, step.new, step.fill_version) == (expected, head, v("1.1.0"))


@pytest.mark.parametrize(
    "later, step",
    [
        (table("stats", "n int", "m int", "z int=5"), evolution("stats")),
        (table("stats", "n string", "m int"), evolution("stats")),
        (table("stats", "n int!", "m int"), evolution("stats")),
        (table("stats", "n string", "m int"), rewrite("stats", up="SELECT string(n) AS n, m FROM {stats}")),
    ],
)
def test_a_fill_that_cannot_be_projected(later: Declaration, step: Step) -> None:
    release = release_of(
        ("1.0.0", [A, STATS], []),
        ("1.1.0", [A, table("stats", "n int", "m int")], [replacement("stats", fill=FILL)]),
        ("1.2.0", [A, later], [step]),
    )
    assert stops(release).stop == v("1.1.0")


def test_fills_read_the_release_before_through_the_names_of_the_source() -> None:
    b = table("b", "z bigint", "y string", "w int")
    release = release_of(
        ("1.0.0", [A, STATS], []),
        ("1.1.0", [b, STATS], [evolution("b", renamed_from="a", rename={"x": "z"})]),
        (
            "1.2.0",
            [table("b", "z bigint"), table("stats", "n int", "m int")],
            [evolution("b", drop=["w", "y"]), replacement("stats", fill="SELECT z FROM {b}")],
        ),
    )
    _, step = steps_of(release)
    assert isinstance(step, Replace)
    assert step.fill == "SELECT z FROM {a}"
    assert fill_inputs(release, v("1.0.0"), step) == (("a", "CAST(`x` AS BIGINT) AS `z`, `y`, CAST(NULL AS INT) AS `w`"),)
    assert fill_inputs(release, v("1.1.0"), steps_of(release, "1.1.0")[1]) == (("b", "`z`, `y`, `w`"),)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "first, middle, steps, says",
    [
        ([STATS], [STATS, A], [], "younger than 1.0.0"),
        ([STATS, A], [STATS, table("a", "x int", "y string", "z int=1")], [evolution("a")], "z changes before"),
        ([STATS, A], [STATS, table("a", "x string")], [replacement("a")], "an earlier step replaces"),
        ([STATS, A], [STATS, table("a", "x string")], [rewrite("a", up="SELECT string(x) AS x FROM {a}")], "an earlier step replaces"),
    ],
)
def test_inputs_that_cannot_be_had(first: list[Declaration], middle: list[Declaration], steps: list[Step], says: str) -> None:
    last = [table("stats", "n int", "m int"), *middle[1:]]
    release = release_of(("1.0.0", first, []), ("1.1.0", middle, steps), ("1.2.0", last, [replacement("stats", fill=FILL)]))
    refusal = stops(release)
    assert says in refusal.reason
    assert (refusal.collection, refusal.stop) == ("stats", v("1.1.0"))
